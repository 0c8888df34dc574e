package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestALongLineIsWrapped(t *testing.T) {
	lines := wrap("    8.5s  " + strings.Repeat("word ", 40) + "✓ end")
	require.Len(t, lines, 3)
	assert.Equal(t, 8500*time.Millisecond, lines[0].at)
	for i, l := range lines {
		assert.LessOrEqual(t, len([]rune(l.text)), columns)
		if i > 0 {
			assert.True(t, strings.HasPrefix(l.text, strings.Repeat(" ", 10)), l.text)
		}
	}
	assert.Len(t, wrap(strings.Repeat("x", columns+1)), 2, "a word that is too long is cut")
	assert.Equal(t, []line{{"short", -1}}, wrap("short"))
}

func TestPausesAreCut(t *testing.T) {
	times, all := moments([]line{{"intro", 80 * time.Second}, {"1. a", -1}, {"b", 90 * time.Second}, {"c", -1}})
	assert.Equal(t, []time.Duration{0, shortest, shortest + longest, 2*shortest + longest}, times)
	assert.Equal(t, times[3]+atTheEnd, all)
}

func TestThePictureIsXMLAndHasAllLines(t *testing.T) {
	picture := draw([]line{{"1. A title", -1}, {"   0.1s  $ echo '<&>'", 0}, {"", -1}, {"   0.2s  ✓ it holds", 0}})
	var texts []string
	decoder := xml.NewDecoder(strings.NewReader(picture))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if start, is := token.(xml.StartElement); is && start.Name.Local == "text" {
			var text string
			require.NoError(t, decoder.DecodeElement(&text, &start))
			texts = append(texts, text)
		}
	}
	assert.Equal(t, []string{"1. A title", "   0.1s  $ echo '<&>'", "   0.2s  ✓ it holds"}, texts)
	assert.Contains(t, picture, `class="h"`)
	assert.Contains(t, picture, `class="c"`)
	assert.Contains(t, picture, `class="y"`)
}
