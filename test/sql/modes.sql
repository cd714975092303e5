-- The modes other than exclusive, semaphores, and many locks at once: what one
-- session can see of them.

CREATE VIEW held AS
SELECT replace(path, '/zklock_regress/modes/', '') AS lock, mode,
       session_holds AS session, transaction_holds AS transaction,
       regexp_replace(node, '^_c_[0-9a-f-]{36}-|[0-9]+$', '', 'g') AS node
FROM zk_locks ORDER BY path COLLATE "C", mode COLLATE "C";

-- Each has its node and its token.
SELECT zk_lock_acquire('/zklock_regress/modes/s', mode => 'shared'),
       zk_lock_acquire('/zklock_regress/modes/w', mode => 'write'),
       zk_lock_acquire('/zklock_regress/modes/simple', mode => 'simple'),
       zk_semaphore_acquire('/zklock_regress/modes/semaphore', 2);
SELECT * FROM held;
SELECT zk_lock_token('/zklock_regress/modes/s', 'shared') <
       zk_lock_token('/zklock_regress/modes/w', 'write') AS grows,
       zk_lock_token('/zklock_regress/modes/w', 'write') <
       zk_lock_token('/zklock_regress/modes/simple', 'simple') AS grows;
SELECT zk_lock_token('/zklock_regress/modes/s');

-- Taken again, they count.
BEGIN;
SELECT zk_lock_acquire('/zklock_regress/modes/s', '0', 'shared', 'transaction'),
       zk_lock_acquire('/zklock_regress/modes/simple', '0', 'simple', 'transaction'),
       zk_semaphore_acquire('/zklock_regress/modes/semaphore', 2, '0', 'transaction'),
       zk_semaphore_acquire('/zklock_regress/modes/semaphore', 2, '0');
SELECT zk_lock_guard('/zklock_regress/modes/w', '0', 'write') =
       zk_lock_token('/zklock_regress/modes/w', 'write') AS same;
SELECT * FROM held;
SAVEPOINT a;
SELECT zk_semaphore_acquire('/zklock_regress/modes/semaphore', 2, '0', 'transaction'),
       zk_semaphore_acquire('/zklock_regress/modes/other', 1, '1 minute', 'transaction');
SELECT * FROM held;
ROLLBACK TO a;
SELECT * FROM held;
COMMIT;
SELECT * FROM held;

-- Released in a mode that is not held
SELECT zk_lock_release('/zklock_regress/modes/s'),
       zk_lock_release('/zklock_regress/modes/w', 'shared'),
       zk_lock_release('/zklock_regress/modes/s', 'simple'),
       zk_semaphore_release('/zklock_regress/modes/s');
SELECT zk_lock_release('/zklock_regress/modes/s', 'shared'),
       zk_lock_release('/zklock_regress/modes/w', 'write'),
       zk_lock_release('/zklock_regress/modes/simple', 'simple'),
       zk_semaphore_release('/zklock_regress/modes/semaphore'),
       zk_semaphore_release('/zklock_regress/modes/semaphore'),
       zk_semaphore_release('/zklock_regress/modes/semaphore');
SELECT * FROM held;

-- Downgrade: shared beside one's own stronger lock, and after it
SELECT zk_lock_acquire('/zklock_regress/modes/a'),
       zk_lock_acquire('/zklock_regress/modes/a', '0', 'shared'),
       zk_lock_acquire('/zklock_regress/modes/b', mode => 'write'),
       zk_lock_acquire('/zklock_regress/modes/b', '0', 'shared');
SELECT * FROM held;
SELECT path, count(DISTINCT right(node, 10)) AS numbers,
       count(DISTINCT token) AS tokens
FROM zk_locks GROUP BY path ORDER BY path;
SELECT zk_lock_release('/zklock_regress/modes/a'),
       zk_lock_release('/zklock_regress/modes/b', 'write');
SELECT * FROM held;

-- Upgrades would wait for ourselves.
SELECT zk_lock_acquire('/zklock_regress/modes/a');
SELECT zk_lock_acquire('/zklock_regress/modes/a', '0', 'write');
SELECT zk_lock_acquire_all('{/zklock_regress/modes/0, /zklock_regress/modes/a}');
SELECT * FROM held;
SELECT zk_lock_release_all();
SELECT zk_lock_acquire('/zklock_regress/modes/a', mode => 'write');
SELECT zk_lock_acquire('/zklock_regress/modes/a');
\set VERBOSITY sqlstate
SELECT zk_lock_acquire('/zklock_regress/modes/a');
\set VERBOSITY default
SELECT zk_lock_release_all();

-- A simple lock and a queue cannot share a path.
SELECT zk_lock_acquire('/zklock_regress/modes/simple', mode => 'simple');
SELECT zk_lock_acquire('/zklock_regress/modes/simple');
SELECT zk_lock_acquire('/zklock_regress/modes/simple/below', mode => 'simple');
SELECT zk_semaphore_acquire('/zklock_regress/modes/simple', 1);
SELECT zk_lock_acquire('/zklock_regress/modes/simple/far/below');
SELECT zk_semaphore_acquire('/zklock_regress/modes/simple/below', 1);
SELECT zk_lock_acquire('/zklock_regress/modes/s');
SELECT zk_lock_acquire('/zklock_regress/modes/s', mode => 'simple');
SELECT zk_lock_acquire('/zklock_regress/modes/s', '0', mode => 'simple');
SELECT zk_lock_acquire('/zklock_regress/modes/' || repeat('x', 256), mode => 'simple');
SELECT * FROM held;
SELECT zk_lock_release_all();

-- Semaphores
SELECT zk_semaphore_acquire('/zklock_regress/modes/semaphore', 0);
SELECT zk_semaphore_acquire('/zklock_regress/modes/semaphore', -1);
SELECT zk_semaphore_acquire('/zklock_regress/modes/semaphore', NULL);
SELECT zk_semaphore_acquire(NULL, 1);
SELECT zk_semaphore_acquire('semaphore', 1);
SELECT zk_semaphore_release(NULL);
SELECT zk_semaphore_release('semaphore');

-- Nobody waits for oneself inside a semaphore.
SELECT zk_lock_acquire('/zklock_regress/modes/in1/locks', mode => 'shared'),
       zk_lock_acquire('/zklock_regress/modes/in2/leases', mode => 'write'),
       zk_lock_acquire('/zklock_regress/modes/in3/leases/x', mode => 'simple'),
       zk_lock_acquire('/zklock_regress/modes/in4/leases2'),
       zk_semaphore_acquire('/zklock_regress/modes/in5', 2),
       zk_lock_acquire('/zklock_regress/modes/in5/locks', '0');
SELECT zk_semaphore_acquire('/zklock_regress/modes/in1', 1);
SELECT zk_semaphore_acquire('/zklock_regress/modes/in2', 1, '0');
SELECT zk_semaphore_acquire('/zklock_regress/modes/in3', 1);
SELECT zk_semaphore_acquire('/zklock_regress/modes/in4', 1),
       zk_semaphore_acquire('/zklock_regress/modes/in5', 2);
SELECT zk_lock_release_all();

-- Many at once: sorted, each once, all or none
SELECT zk_lock_acquire_all('{/zklock_regress/modes/c, /zklock_regress/modes/a, /zklock_regress/modes/c}');
SELECT * FROM held;
SELECT zk_lock_acquire_all('{/zklock_regress/modes/b, /zklock_regress/modes/a}', '0');
SELECT * FROM held;
SELECT zk_lock_acquire_all('{/zklock_regress/modes/d, /zklock_regress/modes/a}', '0', 'shared');
SELECT * FROM held;
SELECT zk_lock_release_all();
BEGIN;
SELECT zk_lock_acquire_all('{/zklock_regress/modes/a, /zklock_regress/modes/b}', scope => 'transaction');
SAVEPOINT a;
SELECT zk_lock_acquire_all('{/zklock_regress/modes/b, /zklock_regress/modes/c}', scope => 'transaction');
SELECT * FROM held;
ROLLBACK TO a;
SELECT * FROM held;
COMMIT;
SELECT * FROM held;
SELECT zk_lock_acquire_all('{}');
SELECT zk_lock_acquire_all(NULL);
SELECT zk_lock_acquire_all('{/zklock_regress/modes/a, NULL}');
SELECT zk_lock_acquire_all('{/zklock_regress/modes/a, a}');
SELECT zk_lock_acquire_all('{/zklock_regress/modes/a}', NULL, NULL);
SELECT zk_lock_acquire_all(array_agg('/zklock_regress/modes/' || i))
FROM generate_series(1, 1001) AS i;
SELECT zk_lock_acquire_all(array_agg('/zklock_regress/modes/many/' || i))
FROM generate_series(1, 1000) AS i;
SELECT count(*) FROM zk_locks;
SELECT zk_lock_release_all();
SELECT * FROM held;

DROP VIEW held;
