// checker is what the containers of test-real run. It prints what its container was given, and meets its peers over TCP. It succeeds once
// it has reached each of them, and each of them has reached it.
//
//	checker ADDRESS...    meets the peers at host:port; with no address those of the files in /etc/volcano, at a port of its own
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	hostsFolder = "/etc/volcano"
	defaultPort = "7000"
	patience    = 2 * time.Minute
	retryPause  = 200 * time.Millisecond
)

// report is what a container was given.
type report struct {
	Hostname string            `json:"hostname"`
	Env      map[string]string `json:"env"`
	// Hosts are the lines of each file of the svc plugin.
	Hosts map[string][]string `json:"hosts"`
	// Peers are the addresses that were met.
	Peers []string `json:"peers"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(peers []string) error {
	own, err := look()
	if err != nil {
		return err
	}
	if len(peers) == 0 {
		for _, names := range own.Hosts {
			for _, name := range names {
				peers = append(peers, net.JoinHostPort(name, defaultPort))
			}
		}
	}
	slices.Sort(peers)
	own.Peers = slices.Compact(peers)
	if err := meet(own.Hostname, own.Peers); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(own)
}

// look reads what the container was given.
func look() (report, error) {
	r := report{Env: map[string]string{}, Hosts: map[string][]string{}}
	var err error
	if r.Hostname, err = os.Hostname(); err != nil {
		return r, err
	}
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		r.Env[name] = value
	}
	files, err := filepath.Glob(filepath.Join(hostsFolder, "*.host"))
	if err != nil {
		return r, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return r, err
		}
		r.Hosts[filepath.Base(file)] = strings.Fields(string(text))
	}
	return r, nil
}

// meet serves at the port of the peer that is this container, and asks each peer for its name. A peer is met when it gave the name that
// its address begins with, and has asked for ours.
func meet(hostname string, peers []string) error {
	port := ""
	for _, peer := range peers {
		host, p, err := net.SplitHostPort(peer)
		if err != nil {
			return err
		}
		if label(host) == hostname {
			port = p
		}
	}
	if port == "" {
		return fmt.Errorf("%s is not among its peers %v", hostname, peers)
	}
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(patience)
	callers := make(chan string)
	go serve(listener, hostname, callers)
	for _, peer := range peers {
		if err := call(hostname, peer, deadline); err != nil {
			return err
		}
	}
	return awaitCallers(peers, callers, deadline)
}

// serve answers each caller with our name, and passes the caller's on.
func serve(listener net.Listener, hostname string, callers chan<- string) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = connection.Close() }()
			caller, err := bufio.NewReader(connection).ReadString('\n')
			if err != nil {
				return
			}
			if _, err := fmt.Fprintln(connection, hostname); err == nil {
				callers <- strings.TrimSpace(caller)
			}
		}()
	}
}

// call asks a peer for its name until it answers.
func call(hostname, peer string, deadline time.Time) error {
	for {
		err := callOnce(hostname, peer)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(retryPause)
	}
}

func callOnce(hostname, peer string) error {
	connection, err := net.DialTimeout("tcp", peer, 5*time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	if err := connection.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(connection, hostname); err != nil {
		return err
	}
	answer, err := bufio.NewReader(connection).ReadString('\n')
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(answer); got != label(peer) {
		return fmt.Errorf("%s answers as %s", peer, got)
	}
	return nil
}

func awaitCallers(peers []string, callers <-chan string, deadline time.Time) error {
	missing := map[string]bool{}
	for _, peer := range peers {
		missing[label(peer)] = true
	}
	timeout := time.After(time.Until(deadline))
	for len(missing) > 0 {
		select {
		case caller := <-callers:
			delete(missing, caller)
		case <-timeout:
			return fmt.Errorf("not called by %v", missing)
		}
	}
	return nil
}

// label is the first part of a host's name.
func label(host string) string {
	name, _, _ := strings.Cut(host, ".")
	return name
}
