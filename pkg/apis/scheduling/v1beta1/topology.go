package v1beta1

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Annotations on pods without a PodGroup that say how near the pods should be to each other. Their PodGroup gets them as networkTopology.
const (
	// TopologyModeAnnotation is the mode: hard or soft, in any case.
	TopologyModeAnnotation = "volcano.sh/network-topology-mode"
	// TopologyTierAnnotation is highestTierAllowed.
	TopologyTierAnnotation = "volcano.sh/network-topology-highest-tier"
)

// NarrowTopologyAnnotation names a tier, by its number or its name. It stands on a Job, a PodGroup or a pod without a PodGroup. A duration may
// follow, as in "1@10m" or "rack@10m". A gang that waits for room keeps to the tier for so long, and then to networkTopology alone. Without a
// duration the tier is only tried first.
//
// It is no field of networkTopology. Typed clients of Volcano write objects back without fields that they do not know. Volcano's own CRDs drop
// such fields at once. Pods have none at all.
const NarrowTopologyAnnotation = "muster.sh/narrow-topology"

// MaxNarrowTime is the longest duration in NarrowTopologyAnnotation.
const MaxNarrowTime = 365 * 24 * time.Hour

// NarrowTopology is what NarrowTopologyAnnotation says.
type NarrowTopology struct {
	// Tier is the number of the tier; nil if it is named.
	Tier *int
	// TierName is the name of the tier; "" if it has a number.
	TierName string
	// For is how long the gang keeps to it.
	For time.Duration
}

// ParseNarrowTopology reads the value of NarrowTopologyAnnotation. The error says what to write.
func ParseNarrowTopology(value string) (NarrowTopology, error) {
	tier, duration, timed := strings.Cut(value, "@")
	var n NarrowTopology
	if timed {
		var err error
		if n.For, err = time.ParseDuration(duration); err != nil || n.For < 0 || n.For > MaxNarrowTime {
			return NarrowTopology{}, fmt.Errorf("%q is no duration: write one like 90s, 10m or 2h after the @, of at most %dh", duration, int(MaxNarrowTime.Hours()))
		}
	}
	if number, err := strconv.Atoi(tier); err == nil && number >= 0 {
		n.Tier = &number
		return n, nil
	}
	if tier == "" || len(tier) > 253 || strings.HasPrefix(tier, "-") || strings.TrimSpace(tier) != tier {
		return NarrowTopology{}, errors.New("the tier is missing: write its number or its name, as in 1@10m or rack@10m")
	}
	n.TierName = tier
	return n, nil
}

// TopologyOf reads the annotations of a pod that are about topology. It returns nil if there are none. The problems are values that mean nothing,
// with what is done instead. As in Volcano, an unknown mode is taken for hard, and a tier that is no number is left out.
func TopologyOf(annotations map[string]string) (topology *NetworkTopologySpec, problems []string) {
	mode, hasMode := annotations[TopologyModeAnnotation]
	text, hasTier := annotations[TopologyTierAnnotation]
	tier, err := strconv.Atoi(text)
	if hasTier && (err != nil || tier < 0) {
		problems = append(problems, fmt.Sprintf("metadata.annotations[%s]: %q is no tier, so no tier is asked for: write a number of at least 0", TopologyTierAnnotation, text))
		hasTier = false
	}
	topology = &NetworkTopologySpec{Mode: HardNetworkTopologyMode}
	switch NetworkTopologyMode(strings.ToLower(mode)) {
	case HardNetworkTopologyMode:
	case SoftNetworkTopologyMode:
		topology.Mode = SoftNetworkTopologyMode
	default:
		if hasMode {
			problems = append(problems, fmt.Sprintf("metadata.annotations[%s]: %q is no mode, so it is taken for hard: write hard or soft", TopologyModeAnnotation, mode))
		}
	}
	if narrow, has := annotations[NarrowTopologyAnnotation]; has {
		if _, err := ParseNarrowTopology(narrow); err != nil {
			problems = append(problems, fmt.Sprintf("metadata.annotations[%s]: it has no effect: %v", NarrowTopologyAnnotation, err))
		}
	}
	if !hasMode && !hasTier {
		return nil, problems
	}
	if hasTier {
		topology.HighestTierAllowed = &tier
	}
	return topology, problems
}
