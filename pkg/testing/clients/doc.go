// Package clients is for tests with clients of an API server, real or fake. It has verbs for outcomes (Expect), and refusals. A verb waits
// with a deadline and says what it saw when the deadline passes. Only tests import it. It links all clients. Tests that only build objects
// import pkg/testing.
package clients
