package bundle

import "github.com/writ-pdp/writ"

// ReadScenarios makes the scenarios of one more file, in the form of
// scenarios/**.yaml, against a bundle that has been built. There are none when
// any of the faults is an error.
func (b *Bundle) ReadScenarios(f File) ([]Scenario, writ.Faults) {
	file := &scenarioFile{document: parseYAML(f.Name, f.Data)}
	file.read()
	with := &builder{memory: memory{policies: b.Snapshot.Policies}}
	scenarios := with.makeScenarios([]*scenarioFile{file}, b.Snapshot)
	faults := append(with.faults, file.faults...).Sort()
	if len(faults.Errors()) > 0 {
		return nil, faults
	}
	return scenarios, faults
}
