package main

// generatedBy is the first line of every page.
const generatedBy = "<!-- Made by hack/docgen (make update). Do not edit. -->\n\n"
