// The locks of go-zookeeper, controlled by the orders in Program.pm.
//
//	go_bench <ZooKeeper's hosts>
package main

import (
	"bufio"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/samuel/go-zookeeper/zk"
)

var hosts string
var clients []*zk.Conn

type quiet struct{}

func (quiet) Printf(string, ...interface{}) {}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "go_bench:", err)
		os.Exit(1)
	}
}

func number(word string) int {
	n, err := strconv.Atoi(word)
	check(err)
	return n
}

// A client that has a session
func connect() *zk.Conn {
	conn, events, err := zk.Connect(strings.Split(hosts, ","), 60*time.Second,
		zk.WithLogger(quiet{}))
	check(err)
	for event := range events {
		if event.State == zk.StateHasSession {
			break
		}
	}
	return conn
}

// Connects clients up to this number.
func open(n int) {
	for len(clients) < n {
		clients = append(clients, connect())
	}
}

func newLock(conn *zk.Conn, path string) *zk.Lock {
	return zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
}

// The number of turns, their time, and that of the acquires
type seen struct {
	ops       int
	elapsed   time.Duration
	acquiring time.Duration
}

func takeTurns(conn *zk.Conn, seconds float64, path string, paths int) seen {
	var s seen
	began := time.Now()
	lock := newLock(conn, path)
	for s.elapsed.Seconds() < seconds {
		asked := time.Now()
		if paths > 1 {
			lock = newLock(conn, fmt.Sprintf("%s/%d", path, rand.Intn(paths)))
		}
		check(lock.Lock())
		s.acquiring += time.Since(asked)
		check(lock.Unlock())
		s.ops++
		s.elapsed = time.Since(began)
	}
	return s
}

func run(n int, seconds float64, path string, paths int) string {
	var ready, done sync.WaitGroup
	var rate, ops, acquiring float64
	all := make([]seen, n)

	open(n)
	ready.Add(1)
	done.Add(n)
	for i := 0; i < n; i++ {
		go func(i int) {
			ready.Wait()
			all[i] = takeTurns(clients[i], seconds, path, paths)
			done.Done()
		}(i)
	}
	ready.Done()
	done.Wait()
	for _, s := range all {
		rate += float64(s.ops) / s.elapsed.Seconds()
		ops += float64(s.ops)
		acquiring += s.acquiring.Seconds()
	}
	return fmt.Sprintf("%.3f %.3f", rate, acquiring/ops*1e6)
}

// The first lock of a client that is not connected yet
func first(n int, path string) string {
	var sum time.Duration
	for i := 0; i < n; i++ {
		began := time.Now()
		conn := connect()
		lock := newLock(conn, path)
		check(lock.Lock())
		sum += time.Since(began)
		check(lock.Unlock())
		conn.Close()
	}
	return fmt.Sprintf("%.3f", sum.Seconds()*1e6/float64(n))
}

func perform(words []string) string {
	switch words[0] {
	case "run":
		seconds, err := strconv.ParseFloat(words[3], 64)
		check(err)
		return run(number(words[2]), seconds, words[4], number(words[5]))
	case "first":
		return first(number(words[1]), words[2])
	case "open":
		open(number(words[1]))
		return "open"
	}
	check(fmt.Errorf("cannot %s", words[0]))
	return ""
}

func main() {
	hosts = os.Args[1]
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		fmt.Println(perform(strings.Fields(in.Text())))
	}
	for _, conn := range clients {
		conn.Close()
	}
}
