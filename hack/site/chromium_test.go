package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lookAtPages opens each page in a frame as wide as a phone, and posts what it saw.
//
//go:embed testdata/look.js
var lookAtPages string

// seen is what look.js found.
type seen struct {
	// Pages is how many pages were looked at.
	Pages int
	// Wide names what is wider than the screen.
	Wide []string
	// Found are the titles that the searches list, by what they look for.
	Found map[string][]string
	// Snippet is the marked word of the last search.
	Snippet string
	// Error is why not all pages could be looked at.
	Error string
}

// TestPagesFitOnAPhone looks at all pages in Chromium. Nothing may be wider than the screen, and the search has to find pages.
func TestPagesFitOnAPhone(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		fmt.Println("Chromium is not installed: the site was not looked at in a browser. To look at it, install Debian's package chromium.")
		return
	}
	out := t.TempDir()
	pages, err := site("../..", out)
	require.NoError(t, err)

	result := look(t, browser, out, pages)
	assert.Empty(t, result.Error)
	assert.Greater(t, result.Pages, 50)
	assert.Empty(t, result.Wide, "wider than a phone's screen")
	for words, title := range searches {
		assert.True(t, slices.ContainsFunc(result.Found[words], func(found string) bool { return strings.HasPrefix(found, title) }),
			"a search for %q finds %q: %v", words, title, result.Found[words])
	}
	assert.Contains(t, result.Snippet, "mpirun")
}

// TestAWidePageIsSeen makes sure that TestPagesFitOnAPhone can fail.
func TestAWidePageIsSeen(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		return // TestPagesFitOnAPhone says so.
	}
	wide := &page{source: "docs/wide.md", target: "wide.html", body: `<table style="width: 900px"><tr><td>wide</td></tr></table>`}
	first := &page{source: start, target: "index.html", title: "Pages", sections: []section{{Level: 1, Title: "Pages", text: "pages"}}}
	out := t.TempDir()
	require.NoError(t, write([]*page{first, wide}, nil, out))
	assert.NotEmpty(t, look(t, browser, out, []*page{first, wide}).Wide)
}

// look opens all pages below out in the browser.
func look(t *testing.T, browser, out string, pages []*page) seen {
	t.Helper()
	results := make(chan seen, 1)
	server := httptest.NewServer(handler(out, pages, results))
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	chromium := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--user-data-dir="+profileFolder(t), "--remote-debugging-port=0", server.URL+"/look.html")
	chromium.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	chromium.Cancel = func() error { return syscall.Kill(-chromium.Process.Pid, syscall.SIGKILL) }
	chromium.WaitDelay = 10 * time.Second
	require.NoError(t, chromium.Start())
	ended := make(chan error, 1)
	go func() { ended <- chromium.Wait() }()
	select {
	case result := <-results:
		cancel()
		<-ended
		return result
	case err := <-ended:
		require.FailNow(t, "Chromium ended, or took longer than five minutes, before all pages were looked at", "%v", err)
	}
	return seen{}
}

// profileFolder makes a folder for what Chromium writes. It is removed once the last of Chromium's processes writes no more.
func profileFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "chromium")
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.Eventually(t, func() bool { return os.RemoveAll(folder) == nil }, time.Minute, 100*time.Millisecond, folder)
	})
	return folder
}

// handler serves the site and the page that looks at all pages, and takes its result.
func handler(out string, pages []*page, results chan<- seen) http.Handler {
	var targets []string
	for _, p := range pages {
		if p.raw == nil {
			targets = append(targets, p.target)
		}
	}
	list, err := json.Marshal(targets)
	words, _ := json.Marshal(slices.Sorted(maps.Keys(searches)))
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(os.DirFS(out)))
	mux.HandleFunc("/look.html", func(w http.ResponseWriter, _ *http.Request) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprintf(w, "<!DOCTYPE html><body><script>const pages = %s, searches = %s;\n%s</script>", list, words, lookAtPages)
	})
	mux.HandleFunc("/result", func(_ http.ResponseWriter, r *http.Request) {
		var result seen
		if err := json.NewDecoder(r.Body).Decode(&result); err != nil {
			result.Error = err.Error()
		}
		results <- result
	})
	return mux
}
