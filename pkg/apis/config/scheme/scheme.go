// Package scheme registers the arguments of Muster's plugins with the scheduler's configuration. They are decoded strictly, defaulted, and
// passed to the plugins as typed values.
package scheme

import (
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-sched/muster/pkg/apis/config"
	configv1 "github.com/muster-sched/muster/pkg/apis/config/v1"
)

// GroupName is the group of the scheduler's configuration, to which the arguments of all plugins belong.
const GroupName = "kubescheduler.config.k8s.io"

var (
	internal = schema.GroupVersion{Group: GroupName, Version: runtime.APIVersionInternal}
	v1       = schema.GroupVersion{Group: GroupName, Version: "v1"}
)

// AddToScheme adds the arguments, their defaults and conversions to the scheduler's scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(internal, &config.CoschedulingArgs{}, &config.CapacityArgs{}, &config.TaskPriorityArgs{}, &config.GangPreemptionArgs{})
	scheme.AddKnownTypes(v1, &configv1.CoschedulingArgs{}, &configv1.CapacityArgs{}, &configv1.TaskPriorityArgs{}, &configv1.GangPreemptionArgs{})
	scheme.AddTypeDefaultingFunc(&configv1.CoschedulingArgs{}, func(obj any) {
		configv1.SetDefaultsCoschedulingArgs(obj.(*configv1.CoschedulingArgs))
	})
	scheme.AddTypeDefaultingFunc(&configv1.GangPreemptionArgs{}, func(obj any) {
		configv1.SetDefaultsGangPreemptionArgs(obj.(*configv1.GangPreemptionArgs))
	})
	for _, add := range []func(*runtime.Scheme) error{
		converter(convertCoschedulingArgs),
		converter(func(in *configv1.CapacityArgs, out *config.CapacityArgs) { out.TypeMeta = in.TypeMeta }),
		converter(func(in *configv1.TaskPriorityArgs, out *config.TaskPriorityArgs) { out.TypeMeta = in.TypeMeta }),
		converter(convertGangPreemptionArgs),
		// The scheduler writes its configuration back to v1 for its log.
		converter(convertCoschedulingArgsBack),
		converter(func(in *config.CapacityArgs, out *configv1.CapacityArgs) { out.TypeMeta = in.TypeMeta }),
		converter(func(in *config.TaskPriorityArgs, out *configv1.TaskPriorityArgs) { out.TypeMeta = in.TypeMeta }),
		converter(convertGangPreemptionArgsBack),
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

// converter registers a conversion that cannot fail.
func converter[In, Out any](convert func(in *In, out *Out)) func(*runtime.Scheme) error {
	return func(scheme *runtime.Scheme) error {
		return scheme.AddConversionFunc((*In)(nil), (*Out)(nil), func(in, out any, _ conversion.Scope) error {
			convert(in.(*In), out.(*Out))
			return nil
		})
	}
}

// convertCoschedulingArgs takes over arguments that have been defaulted.
func convertCoschedulingArgs(in *configv1.CoschedulingArgs, out *config.CoschedulingArgs) {
	in = in.DeepCopy()
	configv1.SetDefaultsCoschedulingArgs(in)
	*out = config.CoschedulingArgs{
		TypeMeta:           in.TypeMeta,
		Admission:          config.AdmissionMode(*in.Admission),
		RequirePodGroup:    *in.RequirePodGroup,
		PermitTimeout:      *in.PermitTimeout,
		PartialGangTimeout: *in.PartialGangTimeout,
		InitialBackoff:     *in.InitialBackoff,
		MaxBackoff:         *in.MaxBackoff,
		MaxOvertakes:       *in.MaxOvertakes,
		MaxOvertakeTime:    *in.MaxOvertakeTime,
		ReservationDepth:   *in.ReservationDepth,
	}
}

func convertCoschedulingArgsBack(in *config.CoschedulingArgs, out *configv1.CoschedulingArgs) {
	admission := string(in.Admission)
	*out = configv1.CoschedulingArgs{
		TypeMeta:           in.TypeMeta,
		Admission:          &admission,
		RequirePodGroup:    &in.RequirePodGroup,
		PermitTimeout:      &in.PermitTimeout,
		PartialGangTimeout: &in.PartialGangTimeout,
		InitialBackoff:     &in.InitialBackoff,
		MaxBackoff:         &in.MaxBackoff,
		MaxOvertakes:       &in.MaxOvertakes,
		MaxOvertakeTime:    &in.MaxOvertakeTime,
		ReservationDepth:   &in.ReservationDepth,
	}
}

// convertGangPreemptionArgs takes over arguments that have been defaulted.
func convertGangPreemptionArgs(in *configv1.GangPreemptionArgs, out *config.GangPreemptionArgs) {
	in = in.DeepCopy()
	configv1.SetDefaultsGangPreemptionArgs(in)
	*out = config.GangPreemptionArgs{
		TypeMeta:                    in.TypeMeta,
		MinCandidateNodesPercentage: *in.MinCandidateNodesPercentage,
		MinCandidateNodesAbsolute:   *in.MinCandidateNodesAbsolute,
		EvictOutsideQueues:          *in.EvictOutsideQueues,
	}
}

func convertGangPreemptionArgsBack(in *config.GangPreemptionArgs, out *configv1.GangPreemptionArgs) {
	*out = configv1.GangPreemptionArgs{
		TypeMeta:                    in.TypeMeta,
		MinCandidateNodesPercentage: &in.MinCandidateNodesPercentage,
		MinCandidateNodesAbsolute:   &in.MinCandidateNodesAbsolute,
		EvictOutsideQueues:          &in.EvictOutsideQueues,
	}
}
