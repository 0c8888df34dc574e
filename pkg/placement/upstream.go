package placement

// The reasons that upstream's filters give. The packages that define them are not part of the plugin interface; a test compares the texts.
const (
	reasonAffinity             = "node(s) didn't match pod affinity rules"
	reasonExistingAntiAffinity = "node(s) didn't satisfy existing pods anti-affinity rules"
	reasonSpread               = "node(s) didn't match pod topology spread constraints"
)
