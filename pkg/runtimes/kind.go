package runtimes

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// Run says what is alike in runs that take about as long.
type Run struct {
	// Owner is the user, or else the namespace. Namespaces and users of the same name differ.
	Owner string
	// Queue it runs in.
	Queue string
	// Name of the Job, or of what else has made it.
	Name string
	// Size is what it consists of, as a text.
	Size string
}

// Key of runs that are alike. It is of fixed length, whatever the names are.
type Key string

// keyBytes is how much of a hash makes a key.
const keyBytes = 12

// key hashes texts.
func key(of ...string) Key {
	sum := sha256.Sum256([]byte(strings.Join(of, "\x00")))
	return Key(hex.EncodeToString(sum[:keyBytes]))
}

// kind is the key of runs that are alike.
func (r Run) kind() Key { return key(r.Owner, r.Queue, KindOf(r.Name), r.Size) }

// owner is the key of all runs of an owner in a queue.
func (r Run) owner() Key { return key(r.Owner, r.Queue) }

// holder is the key of an owner in all queues.
func (r Run) holder() Key { return key(r.Owner) }

// numbers matches what tells a run from others at the end of a name. It is a number, five characters of a generated name, or a longer hash.
// Generated names have no vowels, so a word is none. A hash has a digit.
var numbers = regexp.MustCompile(`([-._]?[0-9]+|[-.][bcdfghjklmnpqrstvwxz2456789]{5}|[-.][0-9a-f]{7,})$`)

// KindOf is a name without the numbers and hashes at its end. A name of nothing else stays as it is.
func KindOf(name string) string {
	for {
		shorter := numbers.ReplaceAllString(name, "")
		if shorter == "" || shorter == name {
			return name
		}
		name = shorter
	}
}
