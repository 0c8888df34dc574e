package phjob

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// jobKind is the kind that a PhJob's objects name as their owner.
var jobKind = primehubv1alpha1.SchemeGroupVersion.WithKind("PhJob")

const (
	// longestCommand is the most that Linux hands to a program as one argument, without the zero byte at its end.
	longestCommand = 131071
	datasetsDir    = "/datasets"
	projectDir     = "/project"
	phfsDir        = "/phfs"
)

// Order is all that a pod is made of beside its PhJob.
type Order struct {
	// Config of the administrator.
	Config *Config
	// SchedulerName is the scheduler of the pod.
	SchedulerName string
	// Group is what the Queue says about the PhJob's group.
	Group Group
	// Image and InstanceType as the PhJob names them.
	Image        *primehubv1alpha1.Image
	InstanceType *primehubv1alpha1.InstanceType
}

// UserOf is the name of the user whose quota counts.
func UserOf(spec *primehubv1alpha1.PhJobSpec) string {
	if spec.UserName != "" {
		return spec.UserName
	}
	return spec.UserID
}

// Validate says why no pod can be made of what a PhJob says, whatever its group has.
func Validate(spec *primehubv1alpha1.PhJobSpec) error {
	if n := len(spec.Command); n > longestCommand {
		return fmt.Errorf("spec.command has %d bytes, of %d at most: put it into a file of the group volume", n, longestCommand)
	}
	if strings.ContainsRune(spec.Command, 0) {
		return fmt.Errorf("spec.command has a zero byte: remove it")
	}
	for field, name := range map[string]string{"userName": UserOf(spec), "groupName": spec.GroupName} {
		if label := primehubv1alpha1.Escape(name); len(label) > validation.LabelValueMaxLength {
			return fmt.Errorf("spec.%s is too long: as the label %s it has %d characters, of %d at most", field, label, len(label), validation.LabelValueMaxLength)
		}
	}
	return nil
}

// PodGroupName is the name of the PodGroup with which a PhJob waits for quota. Each time it goes back to its queue it gets another.
func PodGroupName(job *primehubv1alpha1.PhJob) string {
	return fmt.Sprintf("phjob-%s-%d", job.UID, job.Status.Requeued)
}

// PodGroup makes the PodGroup with which a PhJob waits for quota of its limits.
func PodGroup(job *primehubv1alpha1.PhJob, queue string, limits corev1.ResourceList) *schedulingv1beta1.PodGroup {
	group := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Name: PodGroupName(job), Namespace: job.Namespace,
			Labels:          map[string]string{schedulingv1beta1.UserLabel: primehubv1alpha1.LabelOf(UserOf(&job.Spec))},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, jobKind)},
		},
		Spec: schedulingv1beta1.PodGroupSpec{MinMember: 1, Queue: queue, MinResources: &limits},
	}
	if estimate, stated := job.Annotations[schedulingv1beta1.RunningEstimateAnnotation]; stated {
		group.Annotations = map[string]string{schedulingv1beta1.RunningEstimateAnnotation: estimate}
	}
	return group
}

// Pod makes the pod of a PhJob.
func Pod(job *primehubv1alpha1.PhJob, order *Order) (*corev1.Pod, error) {
	limits, err := Limits(order.InstanceType)
	if err != nil {
		return nil, err
	}
	url, err := URLOf(order.Image, hasGPU(limits))
	if err != nil {
		return nil, err
	}
	files := filesOf(job, order)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: job.Name, Namespace: job.Namespace,
			Labels: map[string]string{
				"app":                          "primehub-job",
				primehubv1alpha1.PodGroupLabel: primehubv1alpha1.Escape(job.Spec.GroupName),
				primehubv1alpha1.PodUserLabel:  primehubv1alpha1.Escape(UserOf(&job.Spec)),
				schedulingv1beta1.UserLabel:    primehubv1alpha1.LabelOf(UserOf(&job.Spec)),
			},
			Annotations:     annotationsOf(job, order.Group.Queue),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, jobKind)},
		},
		Spec: corev1.PodSpec{
			SchedulerName: order.SchedulerName,
			RestartPolicy: corev1.RestartPolicyNever,
			NodeSelector:  merged(order.Config.JobSubmission.NodeSelector, order.InstanceType.Spec.NodeSelector),
			Affinity:      order.Config.JobSubmission.Affinity.DeepCopy(),
			Tolerations:   slices.Concat(order.Config.JobSubmission.Tolerations, order.InstanceType.Spec.Tolerations, staysOnLostNodes),
			Volumes:       files.volumes,
			Containers: []corev1.Container{{
				Name:                     "main",
				Image:                    url,
				ImagePullPolicy:          corev1.PullIfNotPresent,
				Command:                  []string{"/bin/sh", "-c", literal(files.script()), literal(job.Spec.Command)},
				WorkingDir:               order.Config.JobSubmission.WorkingDir,
				Env:                      environment(job, order),
				VolumeMounts:             files.mounts,
				Resources:                corev1.ResourceRequirements{Limits: limits, Requests: limits},
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			}},
		},
	}
	if secret := order.Image.Spec.PullSecret; secret != "" {
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: secret}}
	}
	return pod, nil
}

// staysOnLostNodes keeps a pod bound to a node that does not answer. When the node comes back, the pod still runs. By default Kubernetes
// deletes it after five minutes.
var staysOnLostNodes = []corev1.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
}

// annotationsOf are the annotations of a PhJob's pod. They name its PodGroup and its queue, and what PrimeHub reads. Those of the PhJob are
// copied. Left out are keys that charge a pod, and the copy of the PhJob that kubectl keeps.
func annotationsOf(job *primehubv1alpha1.PhJob, queue string) map[string]string {
	annotations := schedulingv1beta1.WithoutAccount(job.Annotations)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	usage, _ := json.Marshal(map[string]string{ // strings can always be written
		"component": "job", "component_name": job.Name, "instance_type": job.Spec.InstanceType, "group": job.Spec.GroupName, "user": UserOf(&job.Spec),
	})
	annotations[primehubv1alpha1.UsageAnnotation] = string(usage)
	annotations[schedulingv1beta1.GroupNameAnnotation] = PodGroupName(job)
	annotations[schedulingv1beta1.QueueNameAnnotation] = queue
	return annotations
}

// merged is a copy of both maps in one; more wins. It is never nil.
func merged(base, more map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, base)
	maps.Copy(all, more)
	return all
}

// environment is what the command finds in its environment.
func environment(job *primehubv1alpha1.PhJob, order *Order) []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: "PRIMEHUB_USER", Value: literal(UserOf(&job.Spec))},
		{Name: "PRIMEHUB_GROUP", Value: literal(job.Spec.GroupName)},
		{Name: "TZ", Value: order.Config.Timezone},
		{Name: "GROUP_ID", Value: literal(job.Spec.GroupID)},
		{Name: "GROUP_NAME", Value: literal(job.Spec.GroupName)},
		{Name: "JUPYTERHUB_USER", Value: literal(UserOf(&job.Spec))},
		{Name: "INSTANCE_TYPE", Value: job.Spec.InstanceType},
		{Name: "IMAGE_NAME", Value: job.Spec.Image},
		{Name: "PHJOB_NAME", Value: job.Name},
	}
	for _, d := range order.Group.Datasets {
		if d.Type != DatasetEnv {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(d.Variables)) {
			name := strings.ToUpper(d.Name + "_" + key)
			env = append(env, corev1.EnvVar{Name: name, Value: literal(d.Variables[key])})
			if plain := strings.ReplaceAll(name, "-", "_"); plain != name {
				env = append(env, corev1.EnvVar{Name: plain, Value: literal(d.Variables[key])})
			}
		}
	}
	return env
}

// literal keeps Kubernetes from changing a text: it makes $ of $$, and replaces $(NAME).
func literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// files are the volumes of a pod, where they are mounted, and the links to them in the working directory.
type files struct {
	volumes []corev1.Volume
	mounts  []corev1.VolumeMount
	links   []string // paths that the working directory links to, each under its own last part
}

func (f *files) add(name, at string, source corev1.VolumeSource, readOnly bool) {
	f.volumes = append(f.volumes, corev1.Volume{Name: name, VolumeSource: source})
	f.mounts = append(f.mounts, corev1.VolumeMount{Name: name, MountPath: at, ReadOnly: readOnly})
}

func filesOf(job *primehubv1alpha1.PhJob, order *Order) *files {
	f := &files{}
	size := order.Config.JobSubmission.WorkingDirSize
	f.add("workingdir", order.Config.JobSubmission.WorkingDir, emptyDir("", size), false)
	f.add("datasets", datasetsDir, emptyDir("", resource.MustParse("1M")), false)
	f.add("dshm", "/dev/shm", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}, false)
	f.links = append(f.links, datasetsDir)
	for _, d := range order.Group.Datasets {
		at := path.Join(datasetsDir, d.Name)
		switch d.Type {
		case DatasetPV, DatasetGit:
			f.add("dataset-"+d.Name, at, claim(d.VolumeName), d.ReadOnly || d.Type == DatasetGit)
		case DatasetNFS:
			f.add("dataset-"+d.Name, at, corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: d.Server, Path: d.Path, ReadOnly: d.ReadOnly}}, d.ReadOnly)
		}
	}
	for i, group := range order.Group.Volumes {
		at := path.Join(projectDir, fileName(group))
		f.add(fmt.Sprintf("project-%d", i), at, claim("project-"+claimName(group)), false)
		f.links = append(f.links, at)
	}
	if order.Config.PHFSEnabled {
		f.add("phfs", phfsDir, claim(order.Config.PHFSPVC), false)
		f.mounts[len(f.mounts)-1].SubPath = path.Join("groups", claimName(job.Spec.GroupName))
		f.links = append(f.links, phfsDir)
	}
	return f
}

func emptyDir(medium corev1.StorageMedium, size resource.Quantity) corev1.VolumeSource {
	return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium, SizeLimit: ptr.To(size)}}
}

func claim(name string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

// claimName writes the name of a group as PrimeHub does in the names of claims and folders.
func claimName(group string) string { return strings.ReplaceAll(strings.ToLower(group), "_", "-") }

// fileName writes the name of a group so that it is one part of a path.
func fileName(group string) string { return notInFileNames.ReplaceAllString(group, "-") }

var notInFileNames = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// script makes the links, and has a shell of its own run the command, which is its only argument.
func (f *files) script() string {
	script := &strings.Builder{}
	for _, link := range f.links {
		fmt.Fprintf(script, "ln -sfn '%s' '%s'\n", link, path.Base(link))
	}
	script.WriteString(`exec /bin/sh -c "$0"`)
	return script.String()
}
