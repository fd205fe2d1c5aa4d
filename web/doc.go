// Package web is the doors through which people reach Lomi: the page on
// loopback, its event, terminal and screen sockets, and the admin socket of the
// command line. Every route passes one generic door (door.go) that checks who
// asks before it reads what is asked. The rooms behind are called directly;
// terminals and screens come in as seams, because web holds no tool.
package web
