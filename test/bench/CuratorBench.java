/*
 * Curator's locks, controlled by the orders in Program.pm.
 *
 *	java CuratorBench.java <ZooKeeper's hosts>
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class CuratorBench
{
	static final int SESSION_TIMEOUT = 600_000;
	static final int CONNECTION_TIMEOUT = 60_000;

	static final ExecutorService threads = Executors.newCachedThreadPool();
	static final List<CuratorFramework> clients = new ArrayList<>();
	static String hosts;

	/* A lock with acquire and release */
	interface Turn
	{
		void acquire() throws Exception;

		void release() throws Exception;
	}

	public static void main(String[] args) throws Exception
	{
		BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
		String line;

		hosts = args[0];
		while ((line = in.readLine()) != null)
			System.out.println(perform(line.split(" ")));
		for (CuratorFramework client : clients)
			client.close();
		System.exit(0);
	}

	static String perform(String[] words) throws Exception
	{
		switch (words[0])
		{
			case "run":
				return run(words[1], Integer.parseInt(words[2]),
						Double.parseDouble(words[3]), words[4],
						Integer.parseInt(words[5]));
			case "first":
				return first(Integer.parseInt(words[1]), words[2]);
			case "open":
				open(Integer.parseInt(words[1]));
				return "open";
			case "queue":
				return queue(Integer.parseInt(words[1]), words[2]);
			default:
				throw new IllegalArgumentException(words[0]);
		}
	}

	static CuratorFramework connect() throws Exception
	{
		CuratorFramework client = CuratorFrameworkFactory.newClient(hosts,
				SESSION_TIMEOUT, CONNECTION_TIMEOUT,
				new ExponentialBackoffRetry(100, 3));

		client.start();
		client.blockUntilConnected();
		return client;
	}

	/* Connects clients up to this number. */
	static void open(int n) throws Exception
	{
		while (clients.size() < n)
			clients.add(connect());
	}

	static Turn mutex(InterProcessMutex lock)
	{
		return new Turn()
		{
			public void acquire() throws Exception
			{
				lock.acquire();
			}

			public void release() throws Exception
			{
				lock.release();
			}
		};
	}

	/* One in twenty writes. */
	static Turn readMostly(CuratorFramework client, String path)
	{
		InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, path);

		return new Turn()
		{
			InterProcessMutex side;

			public void acquire() throws Exception
			{
				side = ThreadLocalRandom.current().nextInt(20) == 0 ?
						lock.writeLock() : lock.readLock();
				side.acquire();
			}

			public void release() throws Exception
			{
				side.release();
			}
		};
	}

	static Turn semaphore(CuratorFramework client, String path)
	{
		InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, 4);

		return new Turn()
		{
			Lease lease;

			public void acquire() throws Exception
			{
				lease = semaphore.acquire();
			}

			public void release()
			{
				semaphore.returnLease(lease);
			}
		};
	}

	/* Nobody has the lock, or another client. */
	static Turn tried(InterProcessMutex lock, boolean free, int pause)
	{
		return new Turn()
		{
			public void acquire() throws Exception
			{
				if (lock.acquire(0, TimeUnit.SECONDS) != free)
					throw new IllegalStateException("error: free is not " + free);
			}

			public void release() throws Exception
			{
				if (free)
					lock.release();
				Thread.sleep(pause);
			}
		};
	}

	static Turn make(String kind, CuratorFramework client, String path)
	{
		switch (kind)
		{
			case "mutex":
				return mutex(new InterProcessMutex(client, path));
			case "read-mostly":
				return readMostly(client, path);
			case "readers":
				return mutex(new InterProcessReadWriteLock(client, path).readLock());
			case "semaphore":
				return semaphore(client, path);
			case "free-tries":
				return tried(new InterProcessMutex(client, path), true, 0);
			case "tries":
				return tried(new InterProcessMutex(client, path), false, 0);
			case "polls":
				return tried(new InterProcessMutex(client, path), false, 20);
			default:
				throw new IllegalArgumentException(kind);
		}
	}

	static String run(String kind, int n, double seconds, String path, int paths)
			throws Exception
	{
		CyclicBarrier barrier = new CyclicBarrier(n);
		List<Future<double[]>> ends = new ArrayList<>();
		double rate = 0;
		double ops = 0;
		double acquiring = 0;

		open(n);
		for (int i = 0; i < n; i++)
		{
			CuratorFramework client = clients.get(i);

			ends.add(threads.submit(() -> {
				Turn one = make(kind, client, path);

				barrier.await();
				return takeTurns(seconds, () -> paths == 1 ? one : make(kind, client,
						path + "/" + ThreadLocalRandom.current().nextInt(paths)));
			}));
		}
		for (Future<double[]> end : ends)
		{
			double[] seen = end.get();

			rate += seen[0] / seen[1];
			ops += seen[0];
			acquiring += seen[2];
		}
		return String.format("%.3f %.3f", rate, acquiring / ops * 1e6);
	}

	/* Returns the number of turns, their time, and that of the acquires, in seconds. */
	static double[] takeTurns(double seconds, Callable<Turn> next) throws Exception
	{
		long began = System.nanoTime();
		long acquiring = 0;
		long asked;
		int ops = 0;

		while ((asked = System.nanoTime()) < began + seconds * 1e9)
		{
			Turn turn = next.call();

			turn.acquire();
			acquiring += System.nanoTime() - asked;
			turn.release();
			ops++;
		}
		return new double[]{ops, (asked - began) / 1e9, acquiring / 1e9};
	}

	/* The first lock of a client that is not connected yet */
	static String first(int n, String path) throws Exception
	{
		long sum = 0;

		for (int i = 0; i < n; i++)
		{
			long began = System.nanoTime();
			CuratorFramework client = connect();
			InterProcessMutex lock = new InterProcessMutex(client, path);

			lock.acquire();
			sum += System.nanoTime() - began;
			lock.release();
			client.close();
		}
		return String.format("%.3f", sum / 1e3 / n);
	}

	/* Clients queue up, each for one turn. */
	static String queue(int n, String path) throws Exception
	{
		List<Future<?>> ends = new ArrayList<>();

		open(1);
		for (int i = 0; i < n; i++)
		{
			ends.add(threads.submit(() -> {
				Turn turn = mutex(new InterProcessMutex(clients.get(0), path));

				turn.acquire();
				turn.release();
				return null;
			}));
		}
		for (Future<?> end : ends)
			end.get();
		return "done";
	}
}
