"""Tables, trees and long lists."""
