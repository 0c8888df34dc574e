package tenants_test

// phJobs are tries to run with the quota, the images or the data of another group.
var phJobs = []row{
	{name: "a PhJob", try: after(presets, creates(phJob("$red", "$red")), runs("try")), held: uses("1")},
	{name: "a PhJob that changes its group", try: after(presets, creates(phJob("$red", "$red")), patches("PhJob", "try", `spec: {groupId: $blue, groupName: $blue}`)), refused: "what a PhJob runs, and for whom, cannot be changed"},
	{name: "a PhJob of another's group", try: after(presets, creates(phJob("$blue", "$red"))), refused: "$red may not use queue $blue of this group"},
	{name: "a PhJob of another user", try: after(presets, creates(phJob("$red", "$blue"))), refused: "$red may not act for user $blue"},
	{name: "a PhSchedule of another's group", try: after(presets, creates(phSchedule("$blue", "$red"))), refused: "$red may not use queue $blue of this group"},
	{name: "a PhSchedule of another user", try: after(presets, creates(phSchedule("$red", "$blue"))), refused: "$red may not act for user $blue"},
	{name: "a PhSchedule that changes its group", try: after(presets, creates(phSchedule("$red", "$red")),
		patches("PhSchedule", "try", `spec: {jobTemplate: {spec: {groupId: $blue, groupName: $blue}}}`)), refused: "$red may not use queue $blue of this group"},
}

// phSchedule is a PhSchedule whose runs are for a group and a user.
func phSchedule(group, user string) string {
	return `{kind: PhSchedule, spec: {recurrence: {type: inactive}, jobTemplate: {spec: {displayName: a, command: sleep 1, image: base, instanceType: cpu,
		groupId: ` + group + `, groupName: ` + group + `, userId: ` + user + `, userName: ` + user + `}}}}`
}
