// Package lomi holds nothing but the test of the module's laws; the program is
// cmd/lomi. ARCHITECTURE.md describes the rooms that the test holds.
package lomi
