package policy

import "github.com/writ-pdp/writ"

// Read says what is wrong with policies as such: their syntax, their size and
// their annotations. It is for a bundle whose other faults leave no schema to
// [Compile] them against, so that authors see all of their mistakes at once.
func Read(sources []Source) writ.Faults {
	c := &compiler{ids: map[string]*entry{}}
	for _, src := range sources {
		c.parse(src)
	}
	return c.faults.Sort()
}
