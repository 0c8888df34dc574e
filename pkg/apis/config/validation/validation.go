// Package validation checks the arguments of Muster's scheduler plugins.
package validation

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/muster-sched/muster/pkg/apis/config"
)

// maxPermitTimeout is the longest that the scheduler framework lets a pod wait in Permit.
const maxPermitTimeout = 15 * time.Minute

// ValidateCoschedulingArgs checks the arguments of the Coscheduling plugin; all that is wrong is in the error.
func ValidateCoschedulingArgs(path *field.Path, args *config.CoschedulingArgs) error {
	var errs field.ErrorList
	switch args.Admission {
	case config.AdmissionRequired, config.AdmissionIgnore:
	default:
		errs = append(errs, field.NotSupported(path.Child("admission"), args.Admission,
			[]config.AdmissionMode{config.AdmissionRequired, config.AdmissionIgnore}))
	}
	errs = append(errs, positive(path.Child("permitTimeout"), args.PermitTimeout)...)
	if args.PermitTimeout.Duration > maxPermitTimeout {
		errs = append(errs, field.Invalid(path.Child("permitTimeout"), args.PermitTimeout.Duration.String(), "must be at most 15m: the scheduler lets no pod wait longer"))
	}
	errs = append(errs, positive(path.Child("partialGangTimeout"), args.PartialGangTimeout)...)
	errs = append(errs, positive(path.Child("initialBackoff"), args.InitialBackoff)...)
	if args.MaxBackoff.Duration < args.InitialBackoff.Duration {
		errs = append(errs, field.Invalid(path.Child("maxBackoff"), args.MaxBackoff.Duration.String(), "must be at least initialBackoff"))
	}
	if args.MaxOvertakes < 0 {
		errs = append(errs, field.Invalid(path.Child("maxOvertakes"), args.MaxOvertakes, "must not be negative"))
	}
	if args.MaxOvertakeTime.Duration < 0 {
		errs = append(errs, field.Invalid(path.Child("maxOvertakeTime"), args.MaxOvertakeTime.Duration.String(), "must not be negative"))
	}
	if args.ReservationDepth < 0 || args.ReservationDepth > 1 {
		errs = append(errs, field.Invalid(path.Child("reservationDepth"), args.ReservationDepth, "must be 0 or 1"))
	}
	if len(errs) == 0 {
		return nil // a nil Aggregate is not a nil error
	}
	return errs.ToAggregate()
}

func positive(path *field.Path, duration metav1.Duration) field.ErrorList {
	if duration.Duration > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, duration.Duration.String(), "must be greater than 0")}
}
