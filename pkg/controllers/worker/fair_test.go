package worker

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestFairQueue: no key is lost or comes twice, and the keys of a namespace come in their order of arrival. Before a key, and before each
// earlier key of its namespace, comes at most one of each other namespace.
func TestFairQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newFairQueue()
		waiting := map[string][]string{} // namespace -> keys, as pushed
		overtaken := map[string]map[string]int{}
		pushed := 0
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"push", "push", "push", "pop", "pop", "remove"}).Draw(t, "step") {
			case "push":
				namespace := rapid.SampledFrom([]string{"a", "b", "c", ""}).Draw(t, "namespace")
				key := fmt.Sprint(namespace, "/", pushed)
				pushed++
				q.Push(key)
				if len(waiting[namespace]) == 0 {
					overtaken[namespace] = map[string]int{}
				}
				waiting[namespace] = append(waiting[namespace], key)
			case "pop":
				if q.Len() == 0 {
					continue
				}
				key := q.Pop()
				namespace := namespaceOf(key)
				require.NotEmpty(t, waiting[namespace], "%s does not wait", key)
				require.Equal(t, waiting[namespace][0], key, "first in, first out")
				waiting[namespace] = waiting[namespace][1:]
				overtaken[namespace] = map[string]int{}
				for other, keys := range waiting {
					if other != namespace && len(keys) > 0 {
						overtaken[other][namespace]++
						require.LessOrEqual(t, overtaken[other][namespace], 1, "%s goes twice before %s", namespace, other)
					}
				}
			case "remove":
				namespace := rapid.SampledFrom([]string{"a", "b", "c", ""}).Draw(t, "namespace")
				q.remove(namespace + "/none")
				if keys := waiting[namespace]; len(keys) > 0 {
					at := rapid.IntRange(0, len(keys)-1).Draw(t, "at")
					q.remove(keys[at])
					waiting[namespace] = append(append([]string{}, keys[:at]...), keys[at+1:]...)
				}
			}
			total := 0
			for namespace, keys := range waiting {
				total += len(keys)
				require.Equal(t, len(keys), q.countIn(namespace))
			}
			require.Equal(t, total, q.Len())
		}
	})
}

// TestPreferredKeys go before the other keys of their namespace, in the order in which they were preferred, wherever they stood.
func TestPreferredKeys(t *testing.T) {
	q := newFairQueue()
	takeAll := func() (keys []string) {
		for q.Len() > 0 {
			keys = append(keys, q.Pop())
		}
		return keys
	}
	for _, key := range []string{"a/1", "b/1", "a/2", "a/3", "a/4", "a/5"} {
		q.Push(key)
	}
	q.Touch("a/2")
	for _, key := range []string{"a/4", "a/2", "a/4"} {
		q.prefer(key)
		q.Touch(key)
	}
	q.prefer("a/6")
	q.Push("a/6")
	q.remove("a/2")
	q.remove("a/5")
	require.Equal(t, []string{"a/4", "b/1", "a/6", "a/1", "a/3"}, takeAll(), "namespaces take turns all the same")
	require.Empty(t, q.preferred)
	require.Empty(t, q.ahead)
	q.Push("a/1")
	q.Push("a/4")
	require.Equal(t, []string{"a/1", "a/4"}, takeAll(), "a key is preferred once")
}
