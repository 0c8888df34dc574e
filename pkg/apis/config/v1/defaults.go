package v1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-sched/muster/pkg/apis/config"
)

// SetDefaultsCoschedulingArgs fills in what is not set.
func SetDefaultsCoschedulingArgs(args *CoschedulingArgs) {
	if args.Admission == nil {
		args.Admission = ptr.To(string(config.AdmissionRequired))
	}
	if args.RequirePodGroup == nil {
		args.RequirePodGroup = ptr.To(false)
	}
	setDefault(&args.PermitTimeout, time.Minute)
	setDefault(&args.PartialGangTimeout, time.Minute)
	setDefault(&args.InitialBackoff, time.Second)
	setDefault(&args.MaxBackoff, 10*time.Second)
	if args.MaxOvertakes == nil {
		args.MaxOvertakes = ptr.To[int32](100)
	}
	setDefault(&args.MaxOvertakeTime, 10*time.Minute)
	if args.ReservationDepth == nil {
		args.ReservationDepth = ptr.To[int32](1)
	}
}

// SetDefaultsGangPreemptionArgs fills in what is not set.
func SetDefaultsGangPreemptionArgs(args *GangPreemptionArgs) {
	if args.MinCandidateNodesPercentage == nil {
		args.MinCandidateNodesPercentage = ptr.To[int32](10)
	}
	if args.MinCandidateNodesAbsolute == nil {
		args.MinCandidateNodesAbsolute = ptr.To[int32](100)
	}
	if args.EvictOutsideQueues == nil {
		args.EvictOutsideQueues = ptr.To(true)
	}
}

func setDefault(field **metav1.Duration, value time.Duration) {
	if *field == nil {
		*field = &metav1.Duration{Duration: value}
	}
}
