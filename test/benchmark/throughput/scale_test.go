package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMemoryIsJudgedByTheMedianOfThePairsOfARound(t *testing.T) {
	first, last := scaling{name: "pods", nodes: 1}, scaling{name: "pods", nodes: 2}
	row := &scalingRow{variants: both, memory: 1.2, scalings: []scaling{first, last}}
	assert.Equal(t, []scaling{first, last}, row.in(0))
	assert.Equal(t, []scaling{last}, row.in(1))
	o := &options{rounds: 3}
	assert.Equal(t, 3, row.rounds(o))
	assert.Equal(t, 1, (&scalingRow{}).rounds(o))
	assert.Equal(t, []string{"podgroups", "stock"}, inTurn(both, 1))

	run := func(round int, s scaling, variant string, bytes float64) scaleResult {
		return scaleResult{scaling: s, Round: round, Variant: variant, SchedulerBytes: bytes}
	}
	ratios := func(ours ...float64) []scaleResult {
		all := []scaleResult{run(0, first, "stock", 1), run(0, first, "podgroups", 9)}
		for round, bytes := range ours {
			stock := float64(round + 1) // the machine's mood
			all = append(all, run(round, last, "podgroups", bytes*stock), run(round, last, "stock", stock))
		}
		return all
	}
	require.NoError(t, row.judgeMemory(ratios(1.1, 1.9, 1.2)))
	require.ErrorContains(t, row.judgeMemory(ratios(1.1, 1.9, 1.5)), "1.50 of stock's")
	assert.NoError(t, (&scalingRow{scalings: row.scalings}).judgeMemory(ratios(9)), "not asked")
}

func TestTheCostOfWaitingPodsIsJudgedBesideTheStockScheduler(t *testing.T) {
	row := &scalingRow{goal: 1, scalings: []scaling{
		{name: "parked", variant: "podgroups"}, {name: "parked", variant: "podgroups", parked: 40},
		{name: "parked", variant: "stock"}, {name: "parked", variant: "stock", parked: 40},
	}}
	rounds := func(stock float64, reached ...float64) (all []scaleResult) {
		for round, ratio := range reached {
			for i, speed := range []float64{100, 100 * ratio, 80, 80 * stock} {
				s := row.scalings[i]
				all = append(all, scaleResult{scaling: s, PodsPerSecond: speed, Round: round, Variant: s.variant})
			}
		}
		return all
	}
	all := rounds(0.9, 1, 0.5, 0.97)
	assert.Equal(t, "  ratio 0.97", row.ratioToFirst(all, all[9]))
	assert.Equal(t, "  ratio 0.90", row.ratioToFirst(all, all[3]), "the stock scheduler is compared with itself")
	assert.Empty(t, row.ratioToFirst(all[1:2], all[1]), "without the first")
	require.NoError(t, row.judgeSpeed(all))
	assert.ErrorContains(t, row.judgeSpeed(rounds(0.98, 1, 0.5, 0.97)), "below the goal")
}

func TestWritesForGangsThatCannotRun(t *testing.T) {
	run := func(reports, rests float64) scaleResult {
		return scaleResult{scaling: scaling{parked: 10 * parkedGang}, Variant: "podgroups", Parked: 10 * parkedGang, ReportWrites: reports, RestWrites: rests}
	}
	const most = 10*parkedGang + 20
	require.NoError(t, judgeWrites([]scaleResult{run(most, 0), {ReportWrites: 1}}))
	require.ErrorContains(t, judgeWrites([]scaleResult{run(most+1, 0)}), "the first report took 221 writes, not 220")
	require.ErrorContains(t, judgeWrites([]scaleResult{run(most, 0), run(most, 1)}), "1 writes came after the first report")
	stock := run(most+1, 1)
	stock.Variant = "stock"
	assert.NoError(t, judgeWrites([]scaleResult{stock}), "what the stock scheduler writes is not judged")
}
