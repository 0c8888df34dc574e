package tenants_test

// phJobs are tries to run with the quota, the images or the data of another group.
var phJobs = []row{
	{name: "a PhJob", try: after(presets, creates(phJob("$red", "$red")), runs("try")), held: uses("1")},
	{name: "a PhJob that changes its group", try: after(presets, creates(phJob("$red", "$red")), patches("PhJob", "try", `spec: {groupId: $blue, groupName: $blue}`)), refused: "what a PhJob runs, and for whom, cannot be changed"},
}
