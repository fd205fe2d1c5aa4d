package main

// Main is the program, for the tests that run it as a command.
var Main = main
