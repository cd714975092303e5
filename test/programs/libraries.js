// Runs a library's own work in the database of PGDATABASE: libraries.js NAME

const libraries = {
	// Its migrator, with a migration
	kysely: async () => {
		const { Kysely, Migrator, PostgresDialect, sql } = require('kysely');
		const { Pool } = require('pg');
		const db = new Kysely({ dialect: new PostgresDialect({ pool: new Pool() }) });
		const migrations = { work: { up: (tx) => sql`SELECT work()`.execute(tx) } };
		const { error } = await new Migrator({ db, provider: { getMigrations: async () => migrations } })
			.migrateToLatest();

		await db.destroy();
		if (error)
			throw error;
	},

	// The migrations in ./migrations
	'postgres-migrations': async () => {
		const { Client } = require('pg');
		const client = new Client();

		await client.connect();
		try {
			await require('postgres-migrations').migrate({ client }, 'migrations');
		} finally {
			await client.end();
		}
	},

	// The start of a queue, which makes its schema
	'pg-boss': async () => {
		const PgBoss = require('pg-boss');
		const boss = new PgBoss({ supervise: false, schedule: false });

		boss.on('error', (error) => { throw error; });
		await boss.start();
		await boss.stop({ graceful: false });
	}
};

libraries[process.argv[2]]().catch((error) => {
	console.error(error);
	process.exit(1);
});
