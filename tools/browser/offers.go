package browser

import "slices"

// Offers implements broker.Offerer: the tools of the domain that are carried
// out here, so that lomi_status tells the truth about the rest.
func (b *Browser) Offers(tool string) (ok bool, limitation string) {
	if slices.Contains(b.supported(), tool) {
		return true, ""
	}
	return false, "uploads and downloads of the browser are not built yet"
}
