// Tests what docs/drivers.md says about JDBC, with the class of its snippet.
//
//	JdbcTrial <URL>
//
// Prints a line for each thing tried. After "holding" it has a lock, and waits for
// a line to be read.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import org.postgresql.util.PGInterval;

class JdbcTrial {
    interface Parameters {
        void set(PreparedStatement statement) throws SQLException;
    }

    static final BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    static Connection connection;
    static int tries;
    static int deadlocks;

    /** The first column of the first row, or the SQLSTATE of the error. */
    static String value(String sql, Parameters parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            parameters.set(statement);
            try (ResultSet rows = statement.executeQuery()) {
                rows.next();
                return rows.getString(1);
            }
        } catch (SQLException e) {
            connection.rollback();
            return e.getSQLState();
        }
    }

    static String value(String sql) throws SQLException {
        return value(sql, statement -> {});
    }

    static void execute(String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    static void sellSlowly() throws SQLException {
        tries++;
        Shop.sell(connection, 42, "1min");
        System.out.println("holding");
        try {
            in.readLine();
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    static void failOnce() throws SQLException {
        if (deadlocks++ == 0) {
            execute("DO $$ BEGIN RAISE deadlock_detected; END $$");
        }
    }

    public static void main(String[] args) throws SQLException {
        String two = "SELECT zk_lock_acquire(?, ?)";

        connection = DriverManager.getConnection(args[0]);
        Shop.inTransaction(connection, () -> Shop.sell(connection, 42, "1min"));
        System.out.println("locks: "
                + value("SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid()"));

        Shop.inTransaction(connection, JdbcTrial::sellSlowly);
        System.out.println("tries: " + tries);
        Shop.inTransaction(connection, JdbcTrial::failOnce);
        System.out.println("deadlocks: " + deadlocks);

        try {
            Shop.inTransaction(connection, () -> Shop.sell(connection, 7, "0"));
        } catch (SQLException e) {
            System.out.println("busy: " + e.getSQLState());
        }

        System.out.println("strings: " + value(two, s -> {
            s.setString(1, "/a");
            s.setString(2, "1min");
        }));
        System.out.println("interval: " + value(two, s -> {
            s.setString(1, "/a");
            s.setObject(2, new PGInterval("1 minute"));
        }));
        System.out.println("none: " + value(two, s -> {
            s.setString(1, "/a");
            s.setNull(2, Types.OTHER);
        }));
        System.out.println("array: " + value("SELECT zk_lock_acquire_all(?)", s ->
            s.setArray(1, connection.createArrayOf("text", new String[] {"/a", "/b"}))));
        System.out.println("cancelled: "
                + value("SELECT zk_lock_guard('/shop/product_7')", s -> s.setQueryTimeout(1)));

        try (PreparedStatement call = connection.prepareStatement(
                "CALL zk_lock_wait(?, ?::interval)")) {
            call.setString(1, "/called");
            call.setString(2, "1min");
            call.execute();
        }
        System.out.println("call: " + value("SELECT zk_lock_held('/called')"));
        try {
            connection.prepareCall("{call zk_lock_wait('/called')}").execute();
        } catch (SQLException e) {
            System.out.println("escape: " + e.getSQLState());
            connection.rollback();
        }

        value("SELECT zk_lock_release_all()");
        execute("SET zklock.hosts = '127.0.0.1:1'");
        connection.commit();
        System.out.println("away: " + value("SELECT zk_lock_acquire('/a', '100ms')"));
        System.out.println("good: " + connection.isValid(10) + " " + value("SELECT 1"));

        connection = DriverManager.getConnection(args[0] + "&stringtype=unspecified");
        connection.setAutoCommit(false);
        System.out.println("unspecified: " + value(two, s -> {
            s.setString(1, "/c");
            s.setString(2, "1min");
        }));
    }
}
