package localcluster

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
)

const loopback = "127.0.0.1"

// ports keeps one free port for each purpose. A listener holds a port from its choice until its component starts. So no other program, such
// as a second cluster, can take it.
type ports struct {
	mu    sync.Mutex
	held  map[string]net.Listener // purpose -> the listener that keeps the port
	ports map[string]int          // purpose -> port
}

// reservePorts chooses a free port for each purpose.
func reservePorts(purposes ...string) (*ports, error) {
	p := &ports{held: map[string]net.Listener{}, ports: map[string]int{}}
	for _, purpose := range purposes {
		listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			p.releaseAll()
			return nil, fmt.Errorf("reserving a port for %s: %w", purpose, err)
		}
		p.held[purpose] = listener
		p.ports[purpose] = listener.Addr().(*net.TCPAddr).Port
	}
	return p, nil
}

func (p *ports) port(purpose string) string { return strconv.Itoa(p.ports[purpose]) }

func (p *ports) address(purpose string) string {
	return net.JoinHostPort(loopback, p.port(purpose))
}

func (p *ports) url(purpose string) string { return "https://" + p.address(purpose) }

// release frees the ports for their owner, just before it starts.
func (p *ports) release(purposes ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, purpose := range purposes {
		if listener, ok := p.held[purpose]; ok {
			listener.Close()
			delete(p.held, purpose)
		}
	}
}

func (p *ports) releaseAll() {
	for purpose := range p.ports {
		p.release(purpose)
	}
}
