package v1beta1

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
)

func TestParseNarrowTopology(t *testing.T) {
	for value, want := range map[string]NarrowTopology{
		"1":                       {Tier: ptr.To(1)},
		"0@0s":                    {Tier: ptr.To(0)},
		"2@10m":                   {Tier: ptr.To(2), For: 10 * time.Minute},
		"rack@1h30m":              {TierName: "rack", For: 90 * time.Minute},
		"example.com/rack":        {TierName: "example.com/rack"},
		"99999999999999999999@1s": {TierName: "99999999999999999999", For: time.Second}, // no tier has this name, so the gang waits and says so
	} {
		got, err := ParseNarrowTopology(value)
		require.NoError(t, err, value)
		assert.Equal(t, want, got, value)
	}
	for value, want := range map[string]string{
		"": "write its number or its name", "@10m": "write its number or its name", "-1": "write its number or its name",
		"1@": "is no duration", "1@soon": "is no duration", "1@10": "is no duration", "1@-1m": "is no duration", "1@9000h": "is no duration", "1@1m@1m": "is no duration",
	} {
		_, err := ParseNarrowTopology(value)
		assert.ErrorContains(t, err, want, value)
	}
}

// TestTopologyOfAPod: what annotations of pods ask for, and that each value that says nothing is named.
func TestTopologyOfAPod(t *testing.T) {
	hard, soft := HardNetworkTopologyMode, SoftNetworkTopologyMode
	for name, c := range map[string]struct {
		mode, tier, narrow string
		want               *NetworkTopologySpec
		problems           []string
	}{
		"nothing":                  {},
		"a mode":                   {mode: "soft", want: &NetworkTopologySpec{Mode: soft}},
		"a mode in capitals":       {mode: "SOFT", want: &NetworkTopologySpec{Mode: soft}},
		"a tier":                   {tier: "2", want: &NetworkTopologySpec{Mode: hard, HighestTierAllowed: ptr.To(2)}},
		"both":                     {mode: "Hard", tier: "0", want: &NetworkTopologySpec{Mode: hard, HighestTierAllowed: ptr.To(0)}},
		"another mode":             {mode: "firm", tier: "1", want: &NetworkTopologySpec{Mode: hard, HighestTierAllowed: ptr.To(1)}, problems: []string{"[volcano.sh/network-topology-mode]: \"firm\" is no mode"}},
		"a tier that is no number": {mode: "hard", tier: "rack", want: &NetworkTopologySpec{Mode: hard}, problems: []string{"[volcano.sh/network-topology-highest-tier]: \"rack\" is no tier"}},
		"a negative tier":          {tier: "-1", problems: []string{"\"-1\" is no tier"}},
		"a narrow tier":            {narrow: "1@10m"},
		"a wrong narrow tier":      {narrow: "1@soon", problems: []string{"[muster.sh/narrow-topology]: it has no effect: \"soon\" is no duration"}},
		"all wrong":                {mode: "firm", tier: "x", narrow: "@", want: &NetworkTopologySpec{Mode: hard}, problems: []string{"is no tier", "is no mode", "it has no effect"}},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{}
			for key, value := range map[string]string{TopologyModeAnnotation: c.mode, TopologyTierAnnotation: c.tier, NarrowTopologyAnnotation: c.narrow} {
				if value != "" {
					annotations[key] = value
				}
			}
			got, problems := TopologyOf(annotations)
			assert.Equal(t, c.want, got)
			require.Len(t, problems, len(c.problems))
			for i := range problems {
				assert.Contains(t, problems[i], c.problems[i])
			}
		})
	}
}
