package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// Page is what there is to say about an object, in the order in which people ask. Programs get its fields in place of the sentences.
type Page struct {
	Title    string    `json:"-"`
	Sections []Section `json:"-"`

	// Kind, Namespace and Name are those of the object, and Phase is what its status says.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Phase     string `json:"phase,omitempty"`
	// Since is when it entered the phase, or when it was created where that is not known.
	Since *metav1.Time `json:"since,omitempty"`
	// Wait says why it waits; nil if it does not.
	Wait *Wait `json:"wait,omitempty"`
	// Waiting is what waits in a queue, in the order in which it starts. Running is what runs there.
	Waiting []InQueue `json:"waiting,omitempty"`
	Running []InQueue `json:"running,omitempty"`
	// Happened is what happened to it, the earliest first.
	Happened []Occurrence `json:"happened,omitempty"`
	// MayNotRead are the parts of the cluster that the user may not read, and of which nothing is said.
	MayNotRead []Part `json:"mayNotRead,omitempty"`

	said []string // the messages that stand on the page, each once
}

// Section answers one question.
type Section struct {
	Heading string
	Lines   []string
}

// add adds a section, if it has lines.
func (p *Page) add(heading string, lines ...string) {
	if len(lines) > 0 {
		p.Sections = append(p.Sections, Section{heading, lines})
	}
}

// hasSaid says whether a message stands on the page already.
func (p *Page) hasSaid(message string) bool { return message != "" && slices.Contains(p.said, message) }

// Write prints the page. emphasize makes the title and the headings stand out; nil leaves them as they are.
func (p *Page) Write(out io.Writer, emphasize func(string) string) error {
	if emphasize == nil {
		emphasize = func(text string) string { return text }
	}
	text := &strings.Builder{}
	fmt.Fprintln(text, emphasize(p.Title))
	for _, section := range p.Sections {
		fmt.Fprintf(text, "\n%s\n", emphasize(section.Heading))
		for _, line := range section.Lines {
			fmt.Fprintf(text, "  %s\n", line)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// ordinal writes a place: 1st, 2nd, 3rd, 4th.
func ordinal(n int) string {
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}

// first returns the first lines, and one that says how many there are beside them.
func first(n int, lines []string) []string {
	if len(lines) <= n {
		return lines
	}
	return append(append([]string{}, lines[:n]...), fmt.Sprintf("and %d more", len(lines)-n))
}

// Wait is why something waits, as muster-controller and the scheduler found it.
type Wait struct {
	// Reason and Message are theirs; Reason is "" if nothing has been found yet.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// FoundAt is when the message was found, if it says so.
	FoundAt *metav1.Time `json:"foundAt,omitempty"`
	// Ever says whether it can go on.
	Ever Ever `json:"ever"`
	// Short is the amount that is short, if the message names one.
	Short *Short `json:"short,omitempty"`
	// Queue is where it waits; Position is its place among the Waiting ones, from 1. Both are 0 if they are not known.
	Queue    string `json:"queue,omitempty"`
	Position int    `json:"position,omitempty"`
	Waiting  int    `json:"waiting,omitempty"`
	// Before are the ones before it in the queue, the first one first.
	Before []Ahead `json:"before,omitempty"`
	// HeldUpBy is the one of them that no other may pass, if there is one.
	HeldUpBy *Ahead `json:"heldUpBy,omitempty"`
	// Plan is when it is expected to start, nil if that has not been found.
	Plan *schedulingv1beta1.PodGroupPlan `json:"plan,omitempty"`
	// Move is what would have to leave a domain of the network, if the object waits for one.
	Move *Move `json:"move,omitempty"`
}

// Move is a domain of the network, and what would have to leave it.
type Move struct {
	// Domain is its path, and Tier its tier.
	Domain string `json:"domain"`
	Tier   int    `json:"tier"`
	// Leave are the gangs and single pods that would have to leave, sorted by the room that each makes. The largest comes first.
	Leave []Leaves `json:"leave"`
}

// Leaves is a gang, or a pod without one.
type Leaves struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Pods is how many pods it has on nodes, also outside the domain.
	Pods int `json:"pods"`
}

// Ahead is something that waits before another in a queue.
type Ahead struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Why it is before.
	Why string `json:"why"`
}

// Occurrence is an event in the life of an object.
type Occurrence struct {
	At metav1.Time `json:"at"`
	// About are the objects that it happened to, each as "Pod a". It is empty for the object of the page.
	About []string `json:"about,omitempty"`
	// Event is the reason of an event, or the phase that was entered.
	Event string `json:"event"`
	// Message says more.
	Message string `json:"message,omitempty"`
}

// InQueue is a PodGroup that waits or runs in a queue.
type InQueue struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Minimum is what its minimum requests.
	Minimum corev1.ResourceList `json:"minimum"`
	// Message is what was found last about one that waits.
	Message string `json:"message,omitempty"`
}

// notSeen stands for the phase of an object that has none.
const notSeen = "not seen by muster-controller yet"

// Headings that pages of several kinds have.
const (
	headingNow     = "What does it do now?"
	headingBefore  = "Who is before it?"
	headingFrees   = "What would free it?"
	headingOptions = "What can you do?"
)
