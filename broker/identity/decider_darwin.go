package identity

import (
	"errors"
	"net"
)

func (d *Decider) check(net.Conn, int, int) error {
	return errors.New("this system does not prove from which process it comes")
}
