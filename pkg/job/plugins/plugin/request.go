package plugin

import (
	"flag"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/text"
)

// Request is what a Job asks of a plugin, and what the plugin has to say about that.
type Request struct {
	// Job has its defaults filled in. It is to be read only.
	Job *batchv1alpha1.Job

	path  *field.Path
	args  []string
	flags *flag.FlagSet
	errs  field.ErrorList
	notes []Note
}

// NewRequest returns what the Job asks of the plugin with that name.
func NewRequest(job *batchv1alpha1.Job, name string) *Request {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	return &Request{
		Job:   job,
		path:  field.NewPath("spec", "plugins").Key(name),
		args:  job.Spec.Plugins[name],
		flags: flags,
	}
}

// Flags is where a plugin declares its arguments before it calls Parse. They are written as on a command line:
// --name=value, -name value, and --name for a true boolean.
func (r *Request) Flags() *flag.FlagSet { return r.flags }

// Port declares an argument that is the number of a port.
func (r *Request) Port(name string, byDefault int32, usage string) *int32 {
	return r.Number(name, byDefault, 1, maxPort, usage)
}

const maxPort = 1<<16 - 1

// Number declares an argument that is a whole number from least to most.
func (r *Request) Number(name string, byDefault, least, most int32, usage string) *int32 {
	number := &number{value: byDefault, least: least, most: most}
	r.flags.Var(number, name, usage)
	return &number.value
}

// number is a flag.Value with bounds.
type number struct{ value, least, most int32 }

// String implements flag.Value.
func (n *number) String() string { return strconv.Itoa(int(n.value)) }

// Set implements flag.Value. It refuses what is out of bounds.
func (n *number) Set(text string) error {
	value, err := strconv.ParseInt(text, 10, 32)
	if err != nil || value < int64(n.least) || value > int64(n.most) {
		return fmt.Errorf("must be a number from %d to %d", n.least, n.most)
	}
	n.value = int32(value)
	return nil
}

// Parse reads the arguments. It refuses wrong values, and notes arguments that the plugin does not know. Manifests for other versions have
// such arguments, and their Jobs run.
func (r *Request) Parse() {
	for i := 0; i < len(r.args); {
		name, given := argumentName(r.args[i])
		declared := r.flags.Lookup(name)
		if declared == nil {
			r.noteUnknown(r.args[i])
			i++
			continue
		}
		words := 1
		if !given && !isBool(declared) {
			words = 2
		}
		if part := r.args[i:min(i+words, len(r.args))]; len(part) < words {
			r.refuseArgument(i, part, "needs a value", declared)
		} else if err := r.flags.Parse(part); err != nil {
			r.refuseArgument(i, part, why(err, declared), declared)
		}
		i += words
	}
}

// argumentName returns the name in an argument such as --name=value, and whether the value is given with it. The name
// is empty if this is no named argument.
func argumentName(argument string) (string, bool) {
	if !strings.HasPrefix(argument, "-") {
		return "", false
	}
	name, _, given := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(argument, "-"), "-"), "=")
	return name, given
}

func isBool(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

func (r *Request) refuseArgument(position int, part []string, why string, declared *flag.Flag) {
	r.errs = append(r.errs, field.Invalid(r.path.Index(position), strings.Join(part, " "),
		fmt.Sprintf("%s (--%s: %s)", why, declared.Name, declared.Usage)))
}

// why says what is wrong with the value of a flag.
func why(err error, declared *flag.Flag) string {
	if isBool(declared) {
		return "must be true or false"
	}
	// The flag package says first which flag and value it is about.
	message := err.Error()
	if at := strings.LastIndex(message, ": "); at >= 0 {
		message = message[at+len(": "):]
	}
	if message == "parse error" {
		return "must be a number"
	}
	return message
}

// noteUnknown notes an argument that has no effect. It may hold a secret, such as a key in an argument whose name is misspelt. So only the
// part before its value is repeated.
func (r *Request) noteUnknown(argument string) {
	shown, _, _ := strings.Cut(argument, "=")
	r.Note(ReasonArgumentIgnored, "argument %q of plugin %s is ignored: known are %s", text.Cut(shown, maxShown), r.flags.Name(), r.known())
}

const maxShown = 43

// known lists the arguments that are declared.
func (r *Request) known() string {
	var names []string
	r.flags.VisitAll(func(f *flag.Flag) { names = append(names, "--"+f.Name) })
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Refuse says that the Job cannot run with the plugin, for a reason that is in no single argument.
func (r *Request) Refuse(format string, args ...any) {
	// The arguments are not repeated: a key may be among them.
	r.errs = append(r.errs, field.Invalid(r.path, r.flags.Name(), fmt.Sprintf(format, args...)))
}

// Note says what people should be told although the Job runs.
func (r *Request) Note(reason, format string, args ...any) {
	r.notes = append(r.notes, Note{Reason: reason, Message: text.Cut(fmt.Sprintf(format, args...), text.MaxMessage)})
}

// Findings returns what the plugin has refused and noted.
func (r *Request) Findings() (field.ErrorList, []Note) { return r.errs, r.notes }

// Task returns the Job's task with that name, or nil.
func (r *Request) Task(name string) *batchv1alpha1.TaskSpec {
	for i := range r.Job.Spec.Tasks {
		if r.Job.Spec.Tasks[i].Name == name {
			return &r.Job.Spec.Tasks[i]
		}
	}
	return nil
}

// ReserveMount refuses a Job with a volume of the plugin's name, or another mount at the plugin's path.
func (r *Request) ReserveMount(volume, mountPath string) {
	taken := path.Clean(mountPath)
	for i := range r.Job.Spec.Volumes {
		if path.Clean(r.Job.Spec.Volumes[i].MountPath) == taken {
			r.Refuse("spec.volumes[%d] is mounted at %s, where the plugin mounts its files: mount it somewhere else", i, taken)
		}
	}
	for i := range r.Job.Spec.Tasks {
		task := &r.Job.Spec.Tasks[i]
		for _, own := range task.Template.Spec.Volumes {
			if own.Name == volume {
				r.Refuse("task %s has a volume %s, which is the name of the plugin's: give it another one", task.Name, volume)
			}
		}
		forEachContainer(&task.Template.Spec, func(c *corev1.Container) {
			for _, mount := range c.VolumeMounts {
				if path.Clean(mount.MountPath) == taken {
					r.Refuse("container %s of task %s mounts %s at %s, where the plugin mounts its files: mount it somewhere else",
						c.Name, task.Name, mount.Name, taken)
				}
			}
		})
	}
}
