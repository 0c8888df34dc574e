package fence

import (
	"io"
	"net/http"
	"strings"
)

// elections is the API by which leaders are elected. Its requests always pass.
const elections = "/apis/coordination.k8s.io/"

// Wrap is a transport.WrapperFunc for the clients of a program. Each request that writes is checked when it is sent. A request may then wait
// for its turn on a busy connection. So one with a body is checked again when the body is sent.
func (f *Fence) Wrap(next http.RoundTripper) http.RoundTripper {
	return &fencedTransport{next: next, fence: f}
}

type fencedTransport struct {
	next  http.RoundTripper
	fence *Fence
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *fencedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *fencedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if !writes(request) {
		return t.next.RoundTrip(request)
	}
	if err := t.fence.check(); err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // a RoundTripper must, also on errors
		}
		return nil, err
	}
	return t.next.RoundTrip(t.guarded(request))
}

func writes(request *http.Request) bool {
	return request.Method != http.MethodGet && request.Method != http.MethodHead && !strings.HasPrefix(request.URL.Path, elections)
}

// guarded is the request with a body that ends with an error if the fence has closed meanwhile.
func (t *fencedTransport) guarded(request *http.Request) *http.Request {
	if request.Body == nil || request.Body == http.NoBody {
		return request
	}
	guarded := request.WithContext(request.Context()) // a RoundTripper must not change the request itself
	guarded.Body = &fencedBody{ReadCloser: request.Body, fence: t.fence}
	if again := request.GetBody; again != nil {
		guarded.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil {
				return nil, err
			}
			return &fencedBody{ReadCloser: body, fence: t.fence}, nil
		}
	}
	return guarded
}

type fencedBody struct {
	io.ReadCloser
	fence *Fence
}

// Read implements io.Reader.
func (b *fencedBody) Read(p []byte) (int, error) {
	if err := b.fence.check(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}
