package state

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/muster-sched/muster/pkg/apis/config"
)

// Configure takes over the arguments of the Coscheduling plugin in a profile. All profiles share one Store, because a gang may have
// pods of several: it is an error if their arguments differ.
func (s *Store) Configure(profile string, args config.CoschedulingArgs) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range slices.Sorted(maps.Keys(s.argsOf)) {
		if field := differing(s.argsOf[other], args); other != profile && field != "" {
			return fmt.Errorf("%s has another value in profile %q than in profile %q: a gang may have pods of both, so give it the same value in all profiles",
				field, profile, other)
		}
	}
	s.argsOf[profile], s.args = args, args
	return nil
}

// differing names the first argument that two profiles have different values of, as it is written in a configuration; "" if none.
func differing(a, b config.CoschedulingArgs) string {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		name := x.Type().Field(i).Name
		if name != "TypeMeta" && !x.Field(i).Equal(y.Field(i)) {
			return strings.ToLower(name[:1]) + name[1:]
		}
	}
	return ""
}
