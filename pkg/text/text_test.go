package text

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"", 0, ""}, {"short", 5, "short"}, {"longer", 5, "lo..."}, {"longer", 3, "..."}, {"longer", 2, ".."}, {"longer", 0, ""}, {"longer", -1, ""},
		{"größer als", 6, "gr..."},  // the ö has two bytes
		{"größer als", 7, "grö..."}, // and fits whole
		{"日本語", 9, "日本語"}, {"日本語", 8, "日..."},
	} {
		assert.Equal(t, c.want, Cut(c.text, c.n), "%q, %d", c.text, c.n)
	}
}

func TestCutTextsAreShortAndWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, n := rapid.String().Draw(t, "text"), rapid.IntRange(0, 40).Draw(t, "n")
		cut := Cut(text, n)
		assert.LessOrEqual(t, len(cut), n)
		assert.True(t, utf8.ValidString(cut))
		assert.True(t, strings.HasPrefix(text, strings.TrimRight(cut, ".")))
		assert.Equal(t, cut, Cut(cut, n), "to cut again changes nothing")
	})
}
