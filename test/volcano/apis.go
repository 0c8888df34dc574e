// Package volcano pins Volcano's API and the tool that makes CRDs of it. Tests of the move from Volcano install these CRDs. Volcano is under the
// Apache License 2.0. No part of it is in this repository.
package volcano

import (
	_ "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	_ "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	_ "volcano.sh/apis/pkg/apis/flow/v1alpha1"
	_ "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	_ "volcano.sh/apis/pkg/apis/topology/v1alpha1"
)
