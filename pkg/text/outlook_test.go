package text

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAMessageWithAnOutlook(t *testing.T) {
	for _, outlook := range []string{StartsAbout + "13:30:00 UTC on January 1, when train-7; and 2 others end", NoStart + ": it asks for more"} {
		for _, message := range []string{"0 of 8 pods fit", "0 of 8; short of cpu (found at 2030-01-01T12:00:00Z)"} {
			assert.Equal(t, message, WithoutOutlook(WithOutlook(message, outlook)))
			_, known := TimeOf(WithoutOutlook(WithOutlook(message, outlook)))
			_, want := TimeOf(message)
			assert.Equal(t, want, known)
		}
		assert.Equal(t, outlook, WithOutlook("", outlook))
	}
	assert.Equal(t, "0 of 8; short of cpu", WithoutOutlook("0 of 8; short of cpu"))
	assert.Equal(t, "0 of 8", WithOutlook("0 of 8", ""))
}
