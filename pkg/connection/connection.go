// Package connection keeps the watches of a program apart from its requests.
package connection

import (
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// As in the connections that client-go makes by itself.
const timeout, keepAlive = 30 * time.Second, 30 * time.Second

// Own returns a configuration whose clients share no connection with other clients of the same server.
//
// By default all clients of a program share one. A large gang that is bound has hundreds of requests under way on it. Watch events wait
// behind the answers, until the API server takes the watcher for unresponsive and ends the watch.
func Own(config *rest.Config) *rest.Config {
	own := rest.CopyConfig(config)
	own.Dial = (&net.Dialer{Timeout: timeout, KeepAlive: keepAlive}).DialContext
	return own
}
