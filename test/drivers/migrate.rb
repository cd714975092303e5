# Runs the migrations in a directory with ActiveRecord: migrate.rb HOST PORT DATABASE DIR

require 'active_record'

host, port, database, dir = ARGV
ActiveRecord::Base.establish_connection(
  adapter: 'postgresql', host: host, port: port, database: database)
ActiveRecord::Migrator.migrations_paths = [dir]
ActiveRecord::Migration.verbose = false
pool = ActiveRecord::Base.connection_pool
(pool.respond_to?(:migration_context) ? pool : ActiveRecord::Base.connection).migration_context.migrate
