// Runs the migrations in a directory with node-pg-migrate: migrate.js HOST PORT DATABASE DIR

const { runner } = require('node-pg-migrate');
const [host, port, database, dir] = process.argv.slice(2);

runner({
	databaseUrl: { host, port: Number(port), database, user: require('os').userInfo().username },
	dir, direction: 'up', migrationsTable: 'pgmigrations'
}).catch((error) => {
	console.error(error.message);
	process.exit(1);
});
