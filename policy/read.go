package policy

import "github.com/writ-pdp/writ"

// Read says what is wrong with policies as such: their syntax, their size and
// their annotations. It is for a bundle whose other faults leave no schema to
// [Compile] them against, so that authors see all of their mistakes at once.
// Of a previous set, which may be nil, it takes over the files that are the
// same.
func Read(sources []Source, previous *Set) writ.Faults {
	c := &compiler{ids: map[string]*entry{}}
	for _, src := range sources {
		file, known := previous.file(src, nil)
		if !known {
			file = readFile(src)
		}
		c.enter(file)
	}
	return c.faults.Sort()
}
