// Package svc is the plugin that lets the pods of a Job find each other. It makes a headless Service that gives each pod a name in the DNS,
// and a ConfigMap with all names. A NetworkPolicy keeps other pods out.
package svc

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// Name of the plugin.
const Name = "svc"

// mountPath is where containers find the hosts of the Job, one file for each key of the ConfigMap.
const mountPath = "/etc/volcano"

type svc struct {
	job           *batchv1alpha1.Job
	publishAll    bool            // names of pods that are not ready are published too
	isolate       bool            // make a NetworkPolicy
	vars          []corev1.EnvVar // the same for all pods
	configMapName string
}

var _ plugin.ObjectMaker = &svc{}

// New makes the plugin.
func New(r *plugin.Request) plugin.Plugin {
	publishAll := r.Flags().Bool("publish-not-ready-addresses", false, "publish the names of pods that are not ready yet")
	open := r.Flags().Bool("disable-network-policy", false, "make no NetworkPolicy, so that pods of other Jobs can connect")
	inject := r.Flags().Bool("inject-hosts-env", true, "set the variables VC_<TASK>_HOSTS and VC_<TASK>_NUM")
	r.Parse()

	for _, problem := range validation.IsDNS1123Label(r.Job.Name) {
		r.Refuse("the Service is named like the Job, %q, and must have a name without dots: %s", r.Job.Name, problem)
	}
	r.ReserveMount(ConfigMapName(r.Job), mountPath)
	checkHosts(r)
	s := &svc{
		job:           r.Job,
		publishAll:    *publishAll,
		isolate:       !*open,
		configMapName: ConfigMapName(r.Job),
	}
	if *inject {
		s.vars = hostVars(r.Job)
	}
	return s
}

// Objects returns the Service, the ConfigMap and the NetworkPolicy.
func (s *svc) Objects(plugin.Secrets) ([]plugin.Object, error) {
	objects := []plugin.Object{
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: s.job.Name},
			Spec: corev1.ServiceSpec{
				ClusterIP:                corev1.ClusterIPNone,
				Selector:                 plugin.PodsOf(s.job),
				PublishNotReadyAddresses: s.publishAll,
			},
		},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: s.configMapName}, Data: hostsOf(s.job)},
	}
	if s.isolate {
		objects = append(objects, s.networkPolicy())
	}
	return objects, nil
}

// networkPolicy lets in the pods of the Job only.
func (s *svc) networkPolicy() *networkingv1.NetworkPolicy {
	pods := metav1.LabelSelector{MatchLabels: plugin.PodsOf(s.job)}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: s.job.Name},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: pods,
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From: []networkingv1.NetworkPolicyPeer{{PodSelector: &pods}},
			}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		},
	}
}

// MutatePod gives the pod its name in the DNS, and its containers and init containers the hosts of the Job.
func (s *svc) MutatePod(pod *corev1.Pod, task *batchv1alpha1.TaskSpec, _ int32) {
	if pod.Spec.Hostname == "" {
		pod.Spec.Hostname = pod.Name
	}
	pod.Spec.Subdomain = plugin.Subdomain(s.job, task)
	plugin.MountEverywhere(&pod.Spec,
		corev1.Volume{
			Name: s.configMapName,
			VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: s.configMapName},
			}},
		},
		corev1.VolumeMount{Name: s.configMapName, MountPath: mountPath})
	plugin.AddEnvEverywhere(&pod.Spec, s.vars...)
}
