// SPDX-License-Identifier: Apache-2.0
//
// An ordered set whose members contain their own links: it allocates nothing and never moves or
// owns members. T derives from TreeNode and is in at most one tree. `Less` is a strict order
// without equal members. Not thread safe.
//
// Implemented as a treap: a search tree by `Less` and a heap by random priorities. The expected
// depth is about 2 ln n for any order of insertions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace ashlar {

class TreeNode {
 private:
  template <typename T, typename Less>
  friend class IntrusiveTree;

  TreeNode* parent_ = nullptr;
  TreeNode* left_ = nullptr;
  TreeNode* right_ = nullptr;
  uint64_t priority_ = 0;
};

template <typename T, typename Less>
class IntrusiveTree {
 public:
  IntrusiveTree() = default;
  IntrusiveTree(const IntrusiveTree&) = delete;
  IntrusiveTree& operator=(const IntrusiveTree&) = delete;

  bool empty() const { return root_ == nullptr; }
  size_t size() const { return size_; }

  // REQUIRES: `item` is in no tree.
  void insert(T* item);
  // REQUIRES: `item` is in this tree.
  void erase(T* item);

  // These functions return the first or last member, or the member after or before `item`, in
  // order. They return null if there is no such member.
  T* first() const { return item_of(leftmost(root_)); }
  T* last() const { return item_of(rightmost(root_)); }
  static T* next(const T* item);
  static T* previous(const T* item);
  // Returns the first member for which `is_before` is false; null if there is none. REQUIRES:
  // `is_before` is true for a prefix of the order and false after it.
  template <typename IsBefore>
  T* first_not(const IsBefore& is_before) const;

  // Iterates over all members in order. A loop that erases the current member must call next(item)
  // first.
  class Iterator {
   public:
    explicit Iterator(T* at) : at_(at) {}
    T* operator*() const { return at_; }
    Iterator& operator++() {
      at_ = next(at_);
      return *this;
    }
    friend bool operator==(Iterator, Iterator) = default;

   private:
    T* at_;
  };
  Iterator begin() const { return Iterator(first()); }
  Iterator end() const { return Iterator(nullptr); }

 private:
  static T* item_of(TreeNode* node) { return static_cast<T*>(node); }
  static TreeNode* leftmost(TreeNode* node) {
    while (node != nullptr && node->left_ != nullptr) node = node->left_;
    return node;
  }
  static TreeNode* rightmost(TreeNode* node) {
    while (node != nullptr && node->right_ != nullptr) node = node->right_;
    return node;
  }
  // Returns the parent's pointer to the node; the root pointer for the root.
  TreeNode*& link_to(TreeNode* node) {
    TreeNode* parent = node->parent_;
    if (parent == nullptr) return root_;
    return parent->left_ == node ? parent->left_ : parent->right_;
  }
  // Makes the node the parent of its parent, keeping the order. REQUIRES: the node is not the root.
  void rotate_up(TreeNode* node);
  uint64_t draw_priority() {  // xorshift; only needs to be uniform
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_;
  }

  TreeNode* root_ = nullptr;
  size_t size_ = 0;
  uint64_t random_ = 0x9e3779b97f4a7c15ULL;
};

template <typename T, typename Less>
void IntrusiveTree<T, Less>::insert(T* item) {
  TreeNode* node = item;
  node->left_ = node->right_ = node->parent_ = nullptr;
  node->priority_ = draw_priority();
  TreeNode** link = &root_;
  while (*link != nullptr) {
    node->parent_ = *link;
    link = Less()(item, item_of(*link)) ? &(*link)->left_ : &(*link)->right_;
  }
  *link = node;
  ++size_;
  while (node->parent_ != nullptr && node->priority_ < node->parent_->priority_) rotate_up(node);
}

// Rotates the node down to a leaf position, then unlinks it.
template <typename T, typename Less>
void IntrusiveTree<T, Less>::erase(T* item) {
  TreeNode* node = item;
  while (node->left_ != nullptr && node->right_ != nullptr) {
    rotate_up(node->left_->priority_ < node->right_->priority_ ? node->left_ : node->right_);
  }
  TreeNode* child = node->left_ != nullptr ? node->left_ : node->right_;
  link_to(node) = child;
  if (child != nullptr) child->parent_ = node->parent_;
  --size_;
}

template <typename T, typename Less>
void IntrusiveTree<T, Less>::rotate_up(TreeNode* node) {
  TreeNode* parent = node->parent_;
  link_to(parent) = node;
  node->parent_ = parent->parent_;
  parent->parent_ = node;
  const bool was_left = parent->left_ == node;
  TreeNode*& moved_child = was_left ? parent->left_ : parent->right_;
  moved_child = std::exchange(was_left ? node->right_ : node->left_, parent);
  if (moved_child != nullptr) moved_child->parent_ = parent;
}

template <typename T, typename Less>
T* IntrusiveTree<T, Less>::next(const T* item) {
  const TreeNode* node = item;
  if (node->right_ != nullptr) return item_of(leftmost(node->right_));
  while (node->parent_ != nullptr && node->parent_->right_ == node) node = node->parent_;
  return item_of(node->parent_);
}

template <typename T, typename Less>
T* IntrusiveTree<T, Less>::previous(const T* item) {
  const TreeNode* node = item;
  if (node->left_ != nullptr) return item_of(rightmost(node->left_));
  while (node->parent_ != nullptr && node->parent_->left_ == node) node = node->parent_;
  return item_of(node->parent_);
}

template <typename T, typename Less>
template <typename IsBefore>
T* IntrusiveTree<T, Less>::first_not(const IsBefore& is_before) const {
  TreeNode* found = nullptr;
  for (TreeNode* node = root_; node != nullptr;) {
    const bool before = is_before(*item_of(node));
    if (!before) found = node;
    node = before ? node->right_ : node->left_;
  }
  return item_of(found);
}

}  // namespace ashlar
