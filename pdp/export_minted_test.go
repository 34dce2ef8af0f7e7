package pdp

import "github.com/writ-pdp/writ"

// Weight is about how many bytes a remembered proposal takes.
func Weight(p *writ.Proposal) int { return weight(p) }

// Remembered is how many bytes remembered grants take, as far as they are
// counted.
func (p *PDP) Remembered() int {
	p.minted.mu.Lock()
	defer p.minted.mu.Unlock()
	return p.minted.bytes
}
