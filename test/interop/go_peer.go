// The locks of go-zookeeper, controlled by the orders in Peer.pm.
//
//	go_peer <ZooKeeper's hosts> <connection string>
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/samuel/go-zookeeper/zk"
)

// A database session
type database struct {
	psql *exec.Cmd
	to   io.WriteCloser
	from *bufio.Reader
}

func connect() (*database, error) {
	psql := exec.Command("psql", "-XqAt", "-v", "ON_ERROR_STOP=1", os.Args[2])
	psql.Stderr = os.Stderr
	to, err := psql.StdinPipe()
	if err != nil {
		return nil, err
	}
	from, err := psql.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &database{psql, to, bufio.NewReader(from)}, psql.Start()
}

func (d *database) ask(sql string) (string, error) {
	if _, err := fmt.Fprintf(d.to, "%s;\n", sql); err != nil {
		return "", err
	}
	answer, err := d.from.ReadString('\n')
	return strings.TrimSuffix(answer, "\n"), err
}

func (d *database) close() error {
	d.to.Close()
	return d.psql.Wait()
}

type actor struct {
	conn   *zk.Conn
	locks  map[string]*zk.Lock
	orders chan []string
}

func (a *actor) run() {
	for words := range a.orders {
		answer := "t"
		if err := a.perform(words); err != nil {
			answer = "error: " + err.Error()
		}
		fmt.Printf("%s %s\n", words[0], answer)
	}
}

func (a *actor) perform(words []string) error {
	path := words[4]
	lock := a.locks[path]
	if lock == nil {
		lock = zk.NewLock(a.conn, path, zk.WorldACL(zk.PermAll))
		a.locks[path] = lock
	}

	switch verb := words[2]; verb {
	case "acquire":
		return lock.Lock()
	case "release":
		return lock.Unlock()
	case "contend":
		return contend(lock, words[5], words[6])
	default:
		return fmt.Errorf("cannot %s", verb)
	}
}

func contend(lock *zk.Lock, rounds string, work string) error {
	n, err := strconv.Atoi(rounds)
	if err != nil {
		return err
	}
	db, err := connect()
	if err != nil {
		return err
	}
	for i := 0; i < n; i++ {
		if err := lock.Lock(); err != nil {
			return err
		}
		seen, err := db.ask("SELECT " + work + "()")
		if err != nil {
			return err
		}
		if _, err := db.ask("SELECT " + work + "(" + seen + ")"); err != nil {
			return err
		}
		if err := lock.Unlock(); err != nil {
			return err
		}
	}
	return db.close()
}

func main() {
	actors := map[string]*actor{}
	conn, _, err := zk.Connect([]string{os.Args[1]}, 10*time.Second)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		words := strings.Fields(in.Text())
		a := actors[words[1]]
		if a == nil {
			a = &actor{conn, map[string]*zk.Lock{}, make(chan []string, 1)}
			actors[words[1]] = a
			go a.run()
		}
		a.orders <- words
	}
}
