package realnode

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// networkNamespace is where `ip netns` keeps the node's network namespace; /run is the node's own.
const networkNamespace = "/run/netns/node"

// makeNetwork makes the network namespace and a link to it from the host. Both go away with the node.
func (c Config) makeNetwork() error {
	id := identityOf(c.Dir)
	for _, line := range []string{
		"netns add node",
		"link add " + id.name + " type veth peer name node0 netns node",
		"address add " + id.hostIP.String() + "/30 dev " + id.name,
		"link set " + id.name + " up",
		"-netns node address add " + id.nodeIP.String() + "/30 dev node0",
		"-netns node link set node0 up",
		"-netns node link set lo up",
		"-netns node address add " + serviceIP + "/32 dev lo",
		"-netns node address add " + dnsIP + "/32 dev lo",
		// The kubelet looks for a default route, though nothing answers there.
		"-netns node route add default via " + id.hostIP.String(),
	} {
		if err := runCommand(context.Background(), "ip", strings.Fields(line)...); err != nil {
			return fmt.Errorf("making the node's network: %w", err)
		}
	}
	return nil
}

// awaitLinkGone waits until the kernel has removed the interface of a node that has ended.
func awaitLinkGone(name string) error {
	err := wait.PollUntilContextTimeout(context.Background(), retryPause, removePatience, true, func(context.Context) (bool, error) {
		interfaces, err := net.Interfaces()
		return !slices.ContainsFunc(interfaces, func(i net.Interface) bool { return i.Name == name }), err
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("interface %s is still there: remove it with `ip link delete %s`", name, name)
	}
	if err != nil {
		return fmt.Errorf("listing interfaces: %w", err)
	}
	return nil
}

// serveAPI makes the API server of the host answer inside of the node's network namespace, where pods expect it.
func (c Config) serveAPI() error {
	listener, err := listenInNamespace(APIAddress)
	if err != nil {
		return fmt.Errorf("listening at %s in the node's network: %w", APIAddress, err)
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go forward(connection, c.APIServer)
		}
	}()
	return nil
}

// listenInNamespace opens the socket on a thread that is in the namespace. The socket stays there.
func listenInNamespace(address string) (net.Listener, error) {
	namespace, err := os.Open(networkNamespace)
	if err != nil {
		return nil, err
	}
	defer namespace.Close()
	type result struct {
		listener net.Listener
		err      error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- result{err: err}
			return
		}
		listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
		done <- result{listener, err}
	}()
	got := <-done
	return got.listener, got.err
}

// forward copies both ways until both sides have ended.
func forward(from net.Conn, address string) {
	defer func() { _ = from.Close() }()
	to, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = io.Copy(from, to)
		_ = from.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(to, from)
	_ = to.(*net.TCPConn).CloseWrite()
	<-answered
}
