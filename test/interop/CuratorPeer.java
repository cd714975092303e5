/*
 * Curator's locks, controlled by the orders in Peer.pm.
 *
 *	java CuratorPeer.java <ZooKeeper's hosts> <connection string>
 */

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.util.HashMap;
import java.util.Map;
import java.util.StringJoiner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class CuratorPeer
{
	static CuratorFramework curator;
	static String conninfo;

	public static void main(String[] args) throws Exception
	{
		Map<String, Actor> actors = new HashMap<>();
		BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
		String line;

		conninfo = args[1];
		curator = CuratorFrameworkFactory.newClient(args[0],
				new ExponentialBackoffRetry(100, 3));
		curator.start();
		while ((line = in.readLine()) != null)
		{
			String[] words = line.split(" ");

			actors.computeIfAbsent(words[1], name -> new Actor()).tell(words);
		}
		System.exit(0);
	}

	/* A lease of a semaphore, with the look of a lock. */
	static class LeaseLock implements InterProcessLock
	{
		final InterProcessSemaphoreV2 semaphore;
		Lease lease;

		LeaseLock(String path, int leases)
		{
			semaphore = new InterProcessSemaphoreV2(curator, path, leases);
		}

		LeaseLock(String path, SharedCount count)
		{
			semaphore = new InterProcessSemaphoreV2(curator, path, count);
		}

		public void acquire() throws Exception
		{
			lease = semaphore.acquire();
		}

		public boolean acquire(long time, TimeUnit unit) throws Exception
		{
			lease = semaphore.acquire(time, unit);
			return lease != null;
		}

		public void release()
		{
			semaphore.returnLease(lease);
			lease = null;
		}

		public boolean isAcquiredInThisProcess()
		{
			return lease != null;
		}
	}

	/* Leadership, with the look of a lock. */
	static class SelectorLock extends LeaderSelectorListenerAdapter implements InterProcessLock
	{
		final String path;
		LeaderSelector selector;
		CountDownLatch leads;
		CountDownLatch ends;

		SelectorLock(String path)
		{
			this.path = path;
		}

		void start()
		{
			leads = new CountDownLatch(1);
			ends = new CountDownLatch(1);
			selector = new LeaderSelector(curator, path, this);
			selector.start();
		}

		public void takeLeadership(CuratorFramework client) throws InterruptedException
		{
			leads.countDown();
			ends.await();
		}

		public void acquire() throws InterruptedException
		{
			start();
			leads.await();
		}

		public boolean acquire(long time, TimeUnit unit) throws InterruptedException
		{
			start();
			if (leads.await(time, unit))
				return true;
			selector.close();
			return false;
		}

		public void release()
		{
			ends.countDown();
			selector.close();
		}

		public boolean isAcquiredInThisProcess()
		{
			return selector.hasLeadership();
		}
	}

	/* A count, shared by all actors, and the value that its listeners have received */
	static class Count extends SharedCount implements SharedCountListener
	{
		static final Map<String, Count> counts = new HashMap<>();
		volatile int heard;

		Count(String path)
		{
			super(curator, path, 0);
		}

		/* Creates the node with count 0 if it does not exist. */
		static synchronized Count at(String path) throws Exception
		{
			Count count = counts.get(path);

			if (count == null)
			{
				count = new Count(path);
				count.start();
				count.heard = count.getCount();
				count.addListener(count);
				counts.put(path, count);
			}
			return count;
		}

		public void countHasChanged(SharedCountReader reader, int newCount)
		{
			heard = newCount;
		}

		public void stateChanged(CuratorFramework client, ConnectionState state)
		{
		}
	}

	/* A database session */
	static class Database implements AutoCloseable
	{
		final Process psql;
		final Writer to;
		final BufferedReader from;

		Database() throws IOException
		{
			psql = new ProcessBuilder("psql", "-XqAt", "-v", "ON_ERROR_STOP=1",
					conninfo).redirectError(ProcessBuilder.Redirect.INHERIT).start();
			to = new OutputStreamWriter(psql.getOutputStream());
			from = new BufferedReader(new InputStreamReader(psql.getInputStream()));
		}

		String ask(String sql) throws IOException
		{
			to.write(sql + ";\n");
			to.flush();

			String answer = from.readLine();

			if (answer == null)
				throw new IOException("psql failed");
			return answer;
		}

		public void close() throws IOException, InterruptedException
		{
			to.close();
			psql.waitFor();
		}
	}

	/* Always the same thread, because Curator's locks belong to threads. */
	static class Actor
	{
		final ExecutorService thread = Executors.newSingleThreadExecutor();
		final Map<String, InterProcessLock> locks = new HashMap<>();
		final Map<String, InterProcessReadWriteLock> pairs = new HashMap<>();
		final AtomicInteger revocations = new AtomicInteger();

		void tell(String[] words)
		{
			thread.execute(() -> {
				String answer;

				try
				{
					answer = perform(words);
				}
				catch (Exception e)
				{
					answer = "error: " + e;
				}
				System.out.println(words[0] + " " + answer);
			});
		}

		String perform(String[] words) throws Exception
		{
			switch (words[2])
			{
				case "count":
					return String.valueOf(Count.at(words[3]).heard);
				case "set-count":
					Count.at(words[3]).setCount(Integer.parseInt(words[4]));
					return "t";
			}

			InterProcessLock lock = locks.get(words[3] + words[4]);

			if (lock == null)
			{
				lock = make(words[3], words[4]);
				locks.put(words[3] + words[4], lock);
			}

			switch (words[2])
			{
				case "acquire":
					if (words.length > 5)
						return lock.acquire(Long.parseLong(words[5]),
								TimeUnit.MILLISECONDS) ? "t" : "f";
					lock.acquire();
					return "t";
				case "release":
					lock.release();
					return "t";
				case "contend":
					contend(lock, Integer.parseInt(words[5]), words[6]);
					return "t";
				case "contenders":
					return contenders((InterProcessMutex) lock);
				case "agree":
					((InterProcessMutex) lock).makeRevocable(
							any -> revocations.incrementAndGet());
					return "t";
				case "revoke":
					Revoker.attemptRevoke(curator, ((InterProcessMutex) lock)
							.getParticipantNodes().iterator().next());
					return "t";
				case "revocations":
					return String.valueOf(revocations.get());
				default:
					throw new IllegalArgumentException(words[2]);
			}
		}

		InterProcessLock make(String kind, String path) throws Exception
		{
			switch (kind)
			{
				case "mutex":
					return new InterProcessMutex(curator, path);
				case "read":
					return pair(path).readLock();
				case "write":
					return pair(path).writeLock();
				case "selector":
					return new SelectorLock(path);
				case "semaphore-mutex":
					return new InterProcessSemaphoreMutex(curator, path);
				case "semaphore-of-1":
					return new LeaseLock(path, 1);
				case "semaphore-of-3":
					return new LeaseLock(path, 3);
				case "semaphore-counted":
					return new LeaseLock(path, Count.at("/counts" + path));
				default:
					throw new IllegalArgumentException(kind);
			}
		}

		InterProcessReadWriteLock pair(String path)
		{
			return pairs.computeIfAbsent(path,
					key -> new InterProcessReadWriteLock(curator, path));
		}

		void contend(InterProcessLock lock, int rounds, String work) throws Exception
		{
			try (Database database = new Database())
			{
				for (int i = 0; i < rounds; i++)
				{
					lock.acquire();

					String seen = database.ask("SELECT " + work + "()");

					database.ask("SELECT " + work + "(" + seen + ")");
					lock.release();
				}
			}
		}

		String contenders(InterProcessMutex lock) throws Exception
		{
			StringJoiner all = new StringJoiner("; ");

			for (String node : lock.getParticipantNodes())
				all.add(new String(curator.getData().forPath(node)));
			return all.toString();
		}
	}
}
