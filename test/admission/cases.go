// Package admission has, as data, objects that the API server must take or refuse, each with what it must say. The integration tests ask a
// real API server, and the tests of `muster lint` ask the same rules offline. It has no cluster of its own.
package admission

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Case is an object that a user writes, and the API server's answer.
type Case struct {
	// Name says what is wrong or right with the object. It is unique among the cases of a kind.
	Name string
	// Row is the rule of Volcano's that the case is about, by its section and key phrase in the reference. It is "" if it is of Muster's own.
	Row string
	// Base is the valid object that the case changes: one of Bases.
	Base string
	// Old is a merge patch, in YAML, that makes the stored object from the base. "" means that the object is created.
	Old string
	// Patch is a merge patch, in YAML. It makes the written object from the base, or from the stored object if there is one.
	Patch string
	// Says are parts of the refusal: the field and the key phrase. Without any, the object is taken.
	Says []string
	// OnlyCreate says that what is wrong is judged at creation only, as the field does not change.
	OnlyCreate bool
	// Needs says what else the rule depends on. Rules that need nothing can be checked offline, with the object alone.
	Needs Need
}

// Need is what a rule must know beside the object that is written.
type Need string

// Needs of rules.
const (
	// NeedsNothing: the object is enough.
	NeedsNothing Need = ""
	// NeedsQueues: the rule asks the other queues, which are in Queues.
	NeedsQueues Need = "queues"
	// NeedsPlugins: the rule asks the ConfigMap with the known plugins.
	NeedsPlugins Need = "plugins"
)

// IsUpdate tells whether the case is a change of a stored object.
func (c *Case) IsUpdate() bool { return c.Old != "" }

// IsTaken tells whether the API server takes the object.
func (c *Case) IsTaken() bool { return len(c.Says) == 0 }

// Stored is the object that the case changes, or nil if it creates one.
func (c *Case) Stored() (map[string]any, error) {
	if !c.IsUpdate() {
		return nil, nil
	}
	return c.patched(c.Old)
}

// Written is the object that the case writes.
func (c *Case) Written() (map[string]any, error) {
	if c.IsUpdate() {
		return c.patched(c.Old, c.Patch)
	}
	return c.patched(c.Patch)
}

func (c *Case) patched(patches ...string) (map[string]any, error) {
	text, known := Bases[c.Base]
	if !known {
		return nil, fmt.Errorf("case %q: there is no base %q", c.Name, c.Base)
	}
	object, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("reading base %q: %w", c.Base, err)
	}
	for _, text := range patches {
		patch, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("reading a patch of case %q: %w", c.Name, err)
		}
		mergeInto(object, patch)
	}
	return object, nil
}

// All returns the cases of all kinds.
func All() []Case {
	var all []Case
	for _, cases := range [][]Case{queueCases(), podGroupCases(), podCases(), jobCases(), topologyCases(), inputCases()} {
		all = append(all, cases...)
	}
	return append(all, neighbours(all)...)
}

func parse(text string) (map[string]any, error) {
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		return nil, err
	}
	return integers(object).(map[string]any), nil
}

// integers gives whole numbers the type that they have in unstructured objects.
func integers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name := range value {
			value[name] = integers(value[name])
		}
	case []any:
		for i := range value {
			value[i] = integers(value[i])
		}
	case float64:
		if whole := int64(value); float64(whole) == value {
			return whole
		}
	}
	return value
}

// mergeInto applies a merge patch: maps are merged, null removes, all else replaces.
func mergeInto(into, patch map[string]any) {
	for name, value := range patch {
		inner, isMap := value.(map[string]any)
		old, wasMap := into[name].(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case isMap && wasMap:
			mergeInto(old, inner)
		default:
			into[name] = value
		}
	}
}

// neighbours are changes of valid, stored objects to what cases refuse when it is created. Names of objects do not change, and are left out.
func neighbours(cases []Case) []Case {
	var updates []Case
	for _, c := range cases {
		if c.IsUpdate() || c.IsTaken() || c.Base == Pod || strings.Contains(c.Patch, "metadata: {name") {
			continue
		}
		c.Name, c.Old = "update to "+c.Name, "{}"
		if c.OnlyCreate {
			c.Says, c.Needs = []string{"job updates may not"}, NeedsNothing
		}
		updates = append(updates, c)
	}
	return updates
}

// onlyCreate marks cases of fields of Jobs that do not change.
func onlyCreate(cases ...Case) []Case {
	for i := range cases {
		cases[i].OnlyCreate = true
	}
	return cases
}
