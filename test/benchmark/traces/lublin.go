package main

import (
	"math"
	"math/rand/v2"
	"time"
)

// Lublin draws jobs from the model of Lublin and Feitelson, with the parameters that their paper gives for batch jobs. The times of day of the
// model are left out, since Stretch sets the load anyway.
//
// Source: "The workload on parallel supercomputers", Journal of Parallel and Distributed Computing 63(11), 2003.
func Lublin(seed uint64, n, processors int) []Job {
	draw := lublin{Rand: rand.New(rand.NewPCG(seed, 1)), processors: float64(processors)}
	jobs, now := make([]Job, n), time.Duration(0)
	for i := range jobs {
		size := draw.size()
		jobs[i] = Job{Submit: now, Run: draw.runTime(size), Members: size, Each: 1}
		now += draw.gap()
	}
	return jobs
}

// The parameters of the model, named as in the paper.
const (
	serial, powerOfTwo         = 0.2927, 0.6686 // shares of jobs
	sizeLow, sizeMedium, sizeP = 1.2, 2.5, 0.86 // two uniform parts of the logarithm; sizeMedium is below the machine's
	shape1, scale1             = 6.57, 0.823    // of the logarithm of short run times
	shape2, scale2             = 639.1, 0.0156  // of that of long ones
	slope, intercept           = -0.003, 0.6986 // the share of short run times falls with the size
	gapShape, gapScale         = 10.2303, 0.4871
)

type lublin struct {
	*rand.Rand
	processors float64
}

// size is 1, a power of two, or any other number, up to the processors.
func (l lublin) size() int {
	if l.Float64() < serial {
		return 1
	}
	high := math.Log2(l.processors)
	middle := high - sizeMedium
	log := middle + l.Float64()*(high-middle)
	if l.Float64() < sizeP {
		log = sizeLow + l.Float64()*(middle-sizeLow)
	}
	if l.Float64() < powerOfTwo {
		log = math.Round(log)
	}
	return min(int(math.Round(math.Exp2(log))), int(l.processors))
}

// runTime is short or long; large jobs are more often long. It is at most two days, as on the machines that the model was made of.
func (l lublin) runTime(size int) time.Duration {
	log := l.gamma(shape2, scale2)
	if l.Float64() < slope*float64(size)+intercept {
		log = l.gamma(shape1, scale1)
	}
	seconds := min(math.Exp(log), 2*24*3600)
	return time.Duration(math.Ceil(seconds)) * time.Second
}

func (l lublin) gap() time.Duration {
	return time.Duration(math.Exp(l.gamma(gapShape, gapScale)) * float64(time.Second))
}

// gamma draws from a gamma distribution whose shape is at least 1. The method is that of Marsaglia and Tsang, 2000.
func (l lublin) gamma(shape, scale float64) float64 {
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := l.NormFloat64()
		v := (1 + c*x) * (1 + c*x) * (1 + c*x)
		if v > 0 && math.Log(l.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v * scale
		}
	}
}
