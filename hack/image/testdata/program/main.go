// Program program stands for a program of the image in tests.
package main

func main() {}
