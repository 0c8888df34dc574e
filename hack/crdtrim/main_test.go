package main

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// Go reads every value that the pattern accepts.
func TestQuantitiesThatAreTakenCanBeRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(quantityPattern).Draw(t, "quantity")
		_, err := resource.ParseQuantity(text)
		assert.NoError(t, err)
	})
}

func TestQuantityPattern(t *testing.T) {
	taken := regexp.MustCompile(quantityPattern)
	for _, text := range []string{
		"0", "1", "007", "+1", "-1", "5.", ".5", "1.5", "500m", "100n", "1k", "1Gi", "1.5Ki", "1E", "1Ei", "1e3", "1E+3", "1e-9",
	} {
		assert.Regexp(t, taken, text)
	}
	for _, text := range []string{
		"", " 1", "1 ", "1\n", "x", ".", "-", "1d", "1K", "0x10", "NaN", "1e", "1e+",
		"1e1.5", "1e.5", "1e99999999999999999999", // these Go cannot read
		"1e-999999999", "1e1000", // and these not in time
	} {
		assert.NotRegexp(t, taken, text)
	}
}

// Go reads every value of a real day that the pattern accepts.
func TestTimesThatAreTakenCanBeRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(timePattern).Filter(func(text string) bool {
			_, err := time.Parse(time.DateOnly, text[:len(time.DateOnly)])
			return err == nil
		}).Draw(t, "time")
		quoted, err := json.Marshal(text)
		assert.NoError(t, err)
		assert.NoError(t, (&metav1.Time{}).UnmarshalJSON(quoted))
	})
}

func TestTimePattern(t *testing.T) {
	taken := regexp.MustCompile(timePattern)
	for _, text := range []string{"2026-01-31T23:59:59Z", "2026-01-31T00:00:00.123456789Z", "2026-01-31T00:00:00+02:00"} {
		assert.Regexp(t, taken, text)
	}
	for _, text := range []string{
		"", "2026-01-31", "2026-01-31T00:00:00", "2026-01-31 00:00:00Z", "2026-01-31t00:00:00Z", "2026-01-31T00:00:00z",
		"2026-01-31T24:00:00Z", "2026-01-31T00:00:60Z", "2026-01-31T00:00:00x5Z", "2026-01-31T00:00:00+99:00", "2026-01-31T00:00:00Z\n",
	} {
		assert.NotRegexp(t, taken, text)
	}
}
