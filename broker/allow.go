package broker

// AllowsOrigin reports whether a session may load documents of an exact origin
// ("https://host:443") at this moment. It answers from memory at once: a
// browser asks it in the middle of a page's load.
func (b *Broker) AllowsOrigin(sessionID, origin string) bool {
	s := b.session(sessionID)
	return s != nil && authority{b: b, s: s}.Origin(origin)
}
