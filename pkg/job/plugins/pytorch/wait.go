package pytorch

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

const (
	waitName       = "wait-for-master"
	defaultTimeout = 300 // seconds
	defaultImage   = "busybox:1.36.1"
)

// waitScript tries the master's port every two seconds. $0 is its address, $1 its port, $2 the seconds to wait.
const waitScript = `end=$(($(date +%s) + $2))
until if command -v nc >/dev/null 2>&1; then
  nc -z -w 2 "$0" "$1" 2>/dev/null
else
  (: </dev/tcp/"$0"/"$1") 2>/dev/null
fi; do
  if [ "$(date +%s)" -ge "$end" ]; then
    echo "no master at $0:$1 after $2 seconds" >&2
    exit 1
  fi
  sleep 2
done
`

// waiting is how workers wait for the master before they start.
type waiting struct {
	enabled *bool
	timeout *int32 // seconds
	image   *string
}

func declareWait(r *plugin.Request) waiting {
	return waiting{
		enabled: r.Flags().Bool("wait-master-enabled", false, "let workers wait until the master listens"),
		timeout: r.Number("wait-master-timeout", defaultTimeout, 1, math.MaxInt32, "how many seconds they wait before they fail"),
		image:   r.Flags().String("wait-master-image", defaultImage, "an image with sh, and with nc or a shell that knows /dev/tcp"),
	}
}

func (w waiting) container(address string, port int32) *corev1.Container {
	return &corev1.Container{
		Name:    waitName,
		Image:   *w.image,
		Command: []string{"sh", "-c", waitScript, address, strconv.Itoa(int(port)), fmt.Sprint(*w.timeout)},
	}
}

// addWait makes a pod wait after its other init containers, unless it has a container of that name. The container requests the CPU and
// memory of the first container. So the whole pod requests no more, and its quality of service stays as it is. A quota that wants requests
// of every container lets it in.
func addWait(pod *corev1.PodSpec, wait *corev1.Container) {
	named := func(c corev1.Container) bool { return c.Name == waitName }
	if slices.ContainsFunc(pod.InitContainers, named) || slices.ContainsFunc(pod.Containers, named) {
		return
	}
	container := *wait.DeepCopy()
	if len(pod.Containers) > 0 {
		container.Resources = corev1.ResourceRequirements{
			Requests: cpuAndMemory(pod.Containers[0].Resources.Requests),
			Limits:   cpuAndMemory(pod.Containers[0].Resources.Limits),
		}
	}
	pod.InitContainers = append(pod.InitContainers, container)
}

func cpuAndMemory(of corev1.ResourceList) corev1.ResourceList {
	var some corev1.ResourceList
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if amount, ok := of[name]; ok {
			if some == nil {
				some = corev1.ResourceList{}
			}
			some[name] = amount
		}
	}
	return some
}
